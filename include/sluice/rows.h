// SPDX-License-Identifier: Apache-2.0
// Kernels for every number of rows of a range. gemm::plan fits a kernel to each m: a layer that meets 1 to
// 512 rows would compile some fifty. Here few of them serve the whole range, and which one serves which m
// follows from the model and the records.
//   auto served = sluice::gemm::prepare(*device, problem, {.low = 1, .high = 512});
//   auto done   = sluice::gemm::run(*device, problem_of_any_m_inside, args, stream);  // compiles nothing
// docs/decisions/0015-few-kernels-for-many-rows.md has the choice and its price.
#pragma once

#include <utility>
#include <vector>

#include <sluice/gemm.h>
#include <sluice/packed.h>

namespace sluice {

/// Numbers of rows of A (tokens) from low to high, both inside.
struct RowRange {
  i64 low = 1, high = 1;

  bool operator==(const RowRange&) const = default;
};

/// How many kernels may be compiled for one range, those that add up parts among them. The kernel by which a
/// device is asked for its GPCs is compiled once a device and does not count.
inline constexpr int kMostRowKernels = 12;

/// What serving a range with few kernels costs by the model, against the plan that each m would get.
struct RowSummary {
  int kernels = 0;        // to be compiled, at most kMostRowKernels
  int numbers = 0;        // of rows that were looked at: all of a short range
  int unbounded = 0;      // kernels that those would need if each had its own plan
  double mean_loss = 0;   // 0.01: one per cent slower
  double worst_loss = 0;  // and of the m that fares worst
  i64 worst_m = 0;
  bool splits = false;  // some of its launches may ask for a workspace

  bool operator==(const RowSummary&) const = default;
};

/// Which kernel serves which m. A value: the same problem, range, device and records give the same table.
template <class AnyProblem, class AnyPlan>
struct BasicRowTable {
  AnyProblem problem{};  // of `rows.low` rows, its strides as the caller gave them
  RowRange rows{};
  /// A plan for each kernel, of an m that it serves. plan() looks at their configs alone.
  std::vector<AnyPlan> kernels{};
  /// Plans of tuning records whose kernel is among those, by m.
  std::vector<std::pair<i64, AnyPlan>> recorded{};
  bool numbers_by_gpc = false;  // plans may number clusters by GPC
  RowSummary summary{};
};

namespace gemm {

using RowTable = BasicRowTable<Problem, Plan>;

/// Chooses at most kMostRowKernels kernels with which the range loses least. `problem.m` does not count;
/// strides of 0 follow each m. Up to 1024 numbers of rows are all looked at, of longer ranges those up to 256
/// and then 64 to 128 an octave. Takes about 2 ms for each. Pure.
/// Errors: invalid_size (low below 1 or above high; an end that plan() refuses), and those of plan().
Result<RowTable> plan_rows(const Problem& problem, RowRange rows, const DeviceInfo& device,
                           const RecordBook& records = shipped_records());

/// The plan of one m of the table's range: its record's, else that of the kernel which the model likes best.
/// Takes a few microseconds for each kernel. Errors: invalid_size (outside of the range), those of plan().
Result<Plan> plan(const RowTable& table, i64 m, const DeviceInfo& device);

/// Chooses, compiles and loads the kernels of a range. From then on run() on this device serves every m
/// inside without a compile, a load or a search, in a capturing stream too. Ranges may overlap: the first
/// that has an m serves it. What is loaded stays as long as the device. Errors: those of plan_rows and of
/// prepare.
Result<RowSummary> prepare(const Device& device, const Problem& problem, RowRange rows,
                           const Progress& progress = {});

}  // namespace gemm

namespace packed {

using RowTable = BasicRowTable<PackedProblem, Plan>;

/// The same of products of packed weights.
Result<RowTable> plan_rows(const PackedProblem& problem, RowRange rows, const DeviceInfo& device,
                           const RecordBook& records = shipped_records());
Result<Plan> plan(const RowTable& table, i64 m, const DeviceInfo& device);
Result<RowSummary> prepare(const Device& device, const PackedProblem& problem, RowRange rows,
                           const gemm::Progress& progress = {});

}  // namespace packed

/// For people: the kernels, which m each serves and what that costs, as aligned lines; what
/// `sluice plan --rows` prints.
std::string describe(const gemm::RowTable& table, const DeviceInfo& device);
std::string describe(const packed::RowTable& table, const DeviceInfo& device);

}  // namespace sluice
