// SPDX-License-Identifier: Apache-2.0
// What few kernels for a range of rows (sluice/rows.h) cost on a GPU: at numbers of rows drawn at random, the
// kernel of the range and the one that the m would get alone, in turn, verified; and the host time of the
// first call of every m after one prepare. Used by `sluice rows`; rows_record.h writes it down.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include <sluice/rows.h>

#include "bench/product.h"
#include "bench/session.h"

namespace sluice::bench {

struct RowsMethod {
  RowRange rows{1, 512};
  int numbers = 24;  // of rows that are timed, one in each of so many equal parts of the range
  u64 seed = 1;      // of the draw
};

/// Ascending, different; all of a range that has no more.
std::vector<i64> drawn_rows(const RowsMethod& method);

struct RowPoint {
  i64 m = 0;
  bool drawn = true;       // else it is the one that the model thinks fares worst
  std::string alone, few;  // kernels
  bool same = false;       // the same kernel walking the same way: not timed
  Spread alone_us, few_us;
  std::vector<double> alone_rounds, few_rounds;
  bool verified = false;
  std::string error;  // not empty: no timing

  /// 0.01: the kernel of the range is one per cent slower.
  double loss() const { return same || alone_us.median <= 0 ? 0 : few_us.median / alone_us.median - 1; }
};

/// Of run(), the first call of each m in ascending order after one prepare: planned from the table, made
/// ready and launched.
struct FirstCalls {
  int calls = 0;
  int kernels_made = 0;  // compiled or read from the cache meanwhile: must be none
  double median_us = 0, worst_us = 0;
  i64 worst_m = 0;
  std::string error;
};

struct RowsRecord {
  std::string name;
  RowSummary summary;
  double prepare_s = 0;  // choice, compiles (or the cache) and loads
  FirstCalls first_calls;
  std::vector<RowPoint> points;
  std::string error;  // not empty: nothing could be measured

  double mean_loss() const;  // of the drawn points that have no error
  double worst_loss() const;
  bool all_right() const;
};

RowsRecord measure_rows(const Lab& lab, const AnyProblem& problem, const RowsMethod& method,
                        const Phase& phase);

}  // namespace sluice::bench
