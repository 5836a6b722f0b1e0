// SPDX-License-Identifier: Apache-2.0
// Kernels that serve every m (rows of A) of a range. gemm::plan fits a kernel to each m, so a layer that is
// called with 1 to 512 rows would compile about fifty. Here the kernels of fixed m serve the
// whole range; model and records decide which kernel serves which m.
//   auto served = sluice::gemm::prepare(*device, problem, {.low = 1, .high = 512});
//   auto done   = sluice::gemm::run(*device, problem_of_any_m_inside, args, stream);  // compiles nothing
// docs/decisions/0031-kernels-of-fixed-rows.md has the reasons and the cost.
#pragma once

#include <vector>

#include <sluice/plan.h>
#include <sluice/records.h>

namespace sluice {

/// A range of m (rows of A, tokens) from low to high, both included.
struct RowRange {
  i64 low = 1, high = 1;

  bool operator==(const RowRange&) const = default;
};

/// Most kernels that are compiled for one range, including those that add up split-K slices.
inline constexpr int kMostRowKernels = 12;

/// The kernels of a range.
struct RowSummary {
  int kernels = 0;      // to be compiled, at most kMostRowKernels
  bool splits = false;  // true if some launches may need a workspace

  bool operator==(const RowSummary&) const = default;
};

namespace gemm {

/// The kernels of a range. Pure: the same problem, range, device and records give the same table.
struct RowTable {
  Problem problem{};  // a problem with m = rows.low, and the caller's strides
  RowRange rows{};
  /// One plan per kernel, for the least m that picks it. plan() uses only their configs.
  std::vector<Plan> kernels{};
  RecordBook records{};  // plan() looks m up in these
  RowSummary summary{};
};

/// Plans the problem at fixed m of the range (every 8 up to 128, fewer above, and both ends) and takes the
/// kernels of those plans. If they are more than kMostRowKernels, those are dropped without which the fixed m
/// lose least. `problem.m` is ignored; strides of 0 are derived for each m. Takes about 2 ms per fixed m.
/// Pure. Errors: invalid_size (low below 1 or above high; an end that plan() refuses), and those of plan().
Result<RowTable> plan_rows(const Problem& problem, RowRange rows, const DeviceInfo& device,
                           const RecordBook& records = shipped_records());

/// The plan of one m in the table's range: that of its record if the table has its kernel, else that of the
/// kernel with the best estimate. Clusters are numbered in launch order. Takes a few microseconds per kernel.
/// Errors: invalid_size (m outside the range), those of plan().
Result<Plan> plan(const RowTable& table, i64 m, const DeviceInfo& device);

}  // namespace gemm

/// The table as aligned lines: the kernels, and the values of m that each serves. Printed by `sluice plan
/// --rows`.
std::string describe(const gemm::RowTable& table, const DeviceInfo& device);

}  // namespace sluice
