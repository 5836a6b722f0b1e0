// SPDX-License-Identifier: Apache-2.0
// Kernels for every number of rows of a range. gemm::plan fits a kernel to each m, so a layer that meets 1 to
// 512 rows would compile some fifty. Here few kernels serve the whole range; the model and the records decide
// which one serves which m.
//   auto served = sluice::gemm::prepare(*device, problem, {.low = 1, .high = 512});
//   auto done   = sluice::gemm::run(*device, problem_of_any_m_inside, args, stream);  // compiles nothing
// docs/decisions/0015-few-kernels-for-many-rows.md has the choice and its price.
#pragma once

#include <utility>
#include <vector>

#include <sluice/gemm.h>
#include <sluice/packed.h>

namespace sluice {

/// Numbers of rows of A (tokens) from low to high, both included.
struct RowRange {
  i64 low = 1, high = 1;

  bool operator==(const RowRange&) const = default;
};

/// Most kernels that are compiled for one range, including those that add up slices. The kernel that locates
/// a device's GPCs is compiled once a device and does not count.
inline constexpr int kMostRowKernels = 12;

/// The cost of serving a range with few kernels, by the model, against the plan that each m would get.
struct RowSummary {
  int kernels = 0;        // to be compiled, at most kMostRowKernels
  int numbers = 0;        // numbers of rows that were examined: all of a short range
  int unbounded = 0;      // kernels that those numbers would need with a plan each
  double mean_loss = 0;   // 0.01: one per cent slower
  double worst_loss = 0;  // the worst loss, at worst_m
  i64 worst_m = 0;
  bool splits = false;  // some launches may need a workspace

  bool operator==(const RowSummary&) const = default;
};

/// The kernel of each m. Pure: the same problem, range, device and records give the same table.
template <class AnyProblem, class AnyPlan>
struct BasicRowTable {
  AnyProblem problem{};  // a problem of `rows.low` rows, with the caller's strides
  RowRange rows{};
  /// A plan for each kernel, at an m that it serves. plan() uses their configs only.
  std::vector<AnyPlan> kernels{};
  /// Plans of tuning records whose kernel is among those, by m.
  std::vector<std::pair<i64, AnyPlan>> recorded{};
  bool numbers_by_gpc = false;  // plans may number clusters by GPC
  RowSummary summary{};
};

namespace gemm {

using RowTable = BasicRowTable<Problem, Plan>;

/// Chooses at most kMostRowKernels kernels with the least loss over the range. `problem.m` is ignored;
/// strides of 0 follow each m. Up to 1024 numbers of rows are all examined; longer ranges are examined up to
/// 256, then at 64 to 128 an octave. Takes about 2 ms for each. Pure. Errors: invalid_size (low below 1 or
/// above high; an end that plan() refuses), and those of plan().
Result<RowTable> plan_rows(const Problem& problem, RowRange rows, const DeviceInfo& device,
                           const RecordBook& records = shipped_records());

/// The plan of one m of the table's range: its record's, else that of the kernel with the best estimate.
/// Takes a few microseconds for each kernel. Errors: invalid_size (outside the range), those of plan().
Result<Plan> plan(const RowTable& table, i64 m, const DeviceInfo& device);

/// Chooses, compiles and loads the kernels of a range. From then on run() on this device serves every m
/// inside without a compile, a load or a search, in a capturing stream too. Ranges may overlap: the first
/// range that holds an m serves it. Loaded kernels stay as long as the device. Errors: those of plan_rows and
/// of prepare.
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

/// The table as aligned lines: the kernels, the m that each serves, and the loss; printed by `sluice plan
/// --rows`.
std::string describe(const gemm::RowTable& table, const DeviceInfo& device);
std::string describe(const packed::RowTable& table, const DeviceInfo& device);

}  // namespace sluice
