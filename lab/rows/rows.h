// SPDX-License-Identifier: Apache-2.0
// Measures how much slower the few kernels that serve a range of rows (sluice/rows.h) are than the best
// kernel for each m. For random m, the range's kernel and the kernel planned for this m are checked and timed
// in turn. Also measures the host time of the first call for each m after one prepare. Used by `sluice_lab
// rows`; record.h writes the results.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include <sluice/bench/request.h>
#include <sluice/bench/session.h>
#include <sluice/rows.h>

namespace sluice::lab {

using namespace bench;

struct RowsMethod {
  RowRange rows{1, 512};
  // Number of m to time: the range is divided into so many equal parts, and one m is drawn from each.
  int numbers = 24;
  u64 seed = 1;  // seed of the random draw
};

/// Returns the drawn m, ascending and without duplicates. If the range has no more than `numbers`, returns
/// all of it.
std::vector<i64> drawn_rows(const RowsMethod& method);

/// The loss of the range's kernels by the model's estimates, against the plan of each m.
struct RowsModel {
  int kernels_alone = 0;                 // kernels of the plans of each m
  double mean_loss = 0, worst_loss = 0;  // 0.01: one per cent slower
  i64 worst_m = 0;
};

/// Estimates every m of a range of up to 512, else a sample. Errors: those of plan_of.
Result<RowsModel> modelled(const Request& request, const gemm::RowTable& table, const RowRange& rows,
                           const DeviceInfo& device, const RecordBook& records);

struct RowPoint {
  i64 m = 0;
  bool drawn = true;       // false: not drawn, but the m with the largest loss by the cost model
  std::string alone, few;  // names of the kernel chosen for this m only, and of the one that serves the range
  bool same = false;       // true: both have the same kernel and raster, so nothing is timed
  Quantiles alone_us, few_us;
  std::vector<double> alone_rounds, few_rounds;
  bool verified = false;
  std::string error;  // empty if timed, or if `same`

  /// Relative slowdown of the range's kernel: 0.01 is one per cent.
  double loss() const { return same || alone_us.median <= 0 ? 0 : few_us.median / alone_us.median - 1; }
};

/// The first call of run() for each m in ascending order, after one prepare. Each call looks up its plan in
/// the table, binds the arguments and launches.
struct FirstCalls {
  int calls = 0;
  int kernels_made = 0;  // kernels compiled or loaded from the cache during the calls; must be 0
  double median_us = 0, worst_us = 0;
  i64 worst_m = 0;
  std::string error;
};

struct RowsRecord {
  std::string name;
  RowSummary summary;
  RowsModel model;
  double prepare_s = 0;  // choosing, compiling (or the cache) and loading
  FirstCalls first_calls;
  std::vector<RowPoint> points;
  std::string error;  // empty if something was measured

  double mean_loss() const;  // mean over drawn points that have no error
  double worst_loss() const;
  bool all_right() const;
};

RowsRecord measure_rows(const Lab& lab, const Problem& problem, const RowsMethod& method,
                        const bench::Phase& phase);

}  // namespace sluice::lab
