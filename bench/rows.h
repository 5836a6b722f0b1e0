// SPDX-License-Identifier: Apache-2.0
// Measures how much slower the few kernels of a range of rows (sluice/rows.h) are than the best kernel per m.
// At random m, the range's kernel and the kernel planned for that m are verified and timed in turn. Also
// measures the host time of the first call per m after one prepare. Used by `sluice rows`; rows_record.h
// writes the results.
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
  int numbers = 24;  // timed numbers of rows, one from each equal part of the range
  u64 seed = 1;      // seed of the draw
};

/// The drawn m, ascending and distinct; every m of a range with no more.
std::vector<i64> drawn_rows(const RowsMethod& method);

struct RowPoint {
  i64 m = 0;
  bool drawn = true;       // false: the m with the largest loss by the model
  std::string alone, few;  // names of kernels
  bool same = false;       // same kernel and raster: not timed
  Quantiles alone_us, few_us;
  std::vector<double> alone_rounds, few_rounds;
  bool verified = false;
  std::string error;  // not empty: no timing

  /// The slowdown of the range's kernel: 0.01 is one per cent.
  double loss() const { return same || alone_us.median <= 0 ? 0 : few_us.median / alone_us.median - 1; }
};

/// First calls of run(), one for each m in ascending order after one prepare: each plans from the table,
/// makes ready and launches.
struct FirstCalls {
  int calls = 0;
  int kernels_made = 0;  // compiled or read from the cache during the calls; must be 0
  double median_us = 0, worst_us = 0;
  i64 worst_m = 0;
  std::string error;
};

struct RowsRecord {
  std::string name;
  RowSummary summary;
  double prepare_s = 0;  // choosing, compiling (or the cache) and loading
  FirstCalls first_calls;
  std::vector<RowPoint> points;
  std::string error;  // not empty: nothing could be measured

  double mean_loss() const;  // over drawn points without an error
  double worst_loss() const;
  bool all_right() const;
};

RowsRecord measure_rows(const Lab& lab, const AnyProblem& problem, const RowsMethod& method,
                        const Phase& phase);

}  // namespace sluice::bench
