// SPDX-License-Identifier: Apache-2.0
// Kernels that serve every m (rows of A) of a range. gemm::plan fits a kernel to each m, so a layer that is
// called with 1 to 512 rows would compile about fifty. Here a few kernels serve the whole range; model and
// records decide which kernel serves which m.
//   auto served = sluice::gemm::prepare(*device, problem, {.low = 1, .high = 512});
//   auto done   = sluice::gemm::run(*device, problem_of_any_m_inside, args, stream);  // compiles nothing
// docs/decisions/0015-few-kernels-for-many-rows.md has the reasons and the cost.
#pragma once

#include <utility>
#include <vector>

#include <sluice/gemm.h>
#include <sluice/packed.h>

namespace sluice {

/// A range of m (rows of A, tokens) from low to high, both included.
struct RowRange {
  i64 low = 1, high = 1;

  bool operator==(const RowRange&) const = default;
};

/// Most kernels that are compiled for one range, including those that add up split-K slices. The kernel that
/// locates the device's GPCs is compiled once per device and is not counted.
inline constexpr int kMostRowKernels = 12;

/// The modelled cost of serving a range with few kernels, compared with one plan per m.
struct RowSummary {
  int kernels = 0;        // to be compiled, at most kMostRowKernels
  int numbers = 0;        // values of m that were examined: all of a short range, else a sample
  int unbounded = 0;      // kernels that those values would need with one plan each
  double mean_loss = 0;   // 0.01: one per cent slower
  double worst_loss = 0;  // the largest loss; it occurs at worst_m
  i64 worst_m = 0;
  bool splits = false;  // true if some launches may need a workspace

  bool operator==(const RowSummary&) const = default;
};

/// Which kernel serves each m. Pure: the same problem, range, device and records give the same table.
template <class AnyProblem, class AnyPlan>
struct BasicRowTable {
  AnyProblem problem{};  // a problem with m = rows.low, and the caller's strides
  RowRange rows{};
  /// One plan per kernel, for one of the m that it serves. plan() uses only their configs.
  std::vector<AnyPlan> kernels{};
  /// Plans from tuning records that use one of those kernels, by m.
  std::vector<std::pair<i64, AnyPlan>> recorded{};
  bool numbers_by_gpc = false;  // true if plans may number clusters by GPC
  RowSummary summary{};
};

namespace gemm {

using RowTable = BasicRowTable<Problem, Plan>;

/// Chooses at most kMostRowKernels kernels with the least loss over the range. `problem.m` is ignored;
/// strides of 0 are derived for each m. A range of up to 1024 values is examined completely. A longer range
/// is examined completely up to 256, then at 64 to 128 values per octave. Takes about 2 ms per examined
/// value. Pure. Errors: invalid_size (low below 1 or above high; an end that plan() refuses), and those of
/// plan().
Result<RowTable> plan_rows(const Problem& problem, RowRange rows, const DeviceInfo& device,
                           const RecordBook& records = shipped_records());

/// The plan of one m in the table's range: that of its record, else that of the kernel with the best
/// estimate. Takes a few microseconds per kernel. Errors: invalid_size (m outside the range), those of
/// plan().
Result<Plan> plan(const RowTable& table, i64 m, const DeviceInfo& device);

/// Chooses, compiles and loads the kernels of a range. From then on run() on this device serves every m of
/// the range without compiling, loading or searching, also while the stream is capturing. Ranges may overlap:
/// the first prepared range that contains an m serves it. Kernels stay loaded as long as the device exists.
/// Errors: those of plan_rows and of prepare.
Result<RowSummary> prepare(const Device& device, const Problem& problem, RowRange rows,
                           const Progress& progress = {});

}  // namespace gemm

namespace packed {

using RowTable = BasicRowTable<PackedProblem, Plan>;

/// plan_rows() for products of packed weights.
Result<RowTable> plan_rows(const PackedProblem& problem, RowRange rows, const DeviceInfo& device,
                           const RecordBook& records = shipped_records());
Result<Plan> plan(const RowTable& table, i64 m, const DeviceInfo& device);
Result<RowSummary> prepare(const Device& device, const PackedProblem& problem, RowRange rows,
                           const gemm::Progress& progress = {});

}  // namespace packed

/// The table as aligned lines: the kernels, the values of m that each serves, and the loss. Printed by
/// `sluice plan --rows`.
std::string describe(const gemm::RowTable& table, const DeviceInfo& device);
std::string describe(const packed::RowTable& table, const DeviceInfo& device);

}  // namespace sluice
