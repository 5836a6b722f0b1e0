// SPDX-License-Identifier: Apache-2.0
// A plan holds every decision about a problem. Planning is a pure function: it reads no GPU, clock or
// environment. The same problem, device, overrides and records always give the same plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sluice/device_info.h>
#include <sluice/result.h>
#include <sluice/spec/problem.h>
#include <sluice/spec/validate.h>
#include <sluice/spec/work_split.h>

namespace sluice {

class RecordBook;  // earlier measurements: sluice/records.h
const RecordBook& shipped_records();

/// The planner's estimate of where the time goes, in microseconds.
struct Estimate {
  double tensor_us = 0;  // one wave's tensor-core time x waves
  double l2_us = 0;
  double hbm_us = 0;
  double overhead_us = 0;  // launch, ring fill, last epilogue
  double total_us = 0;
  int waves = 0;

  bool operator==(const Estimate&) const = default;
};

/// The source of a plan. record: a measurement of this problem, or of its product without gate and scale of D
/// (sluice/records.h). model: the cost model, with the caller's overrides if there are any.
enum class PlanSource { model, record };

struct Plan {
  Problem problem{};  // with all strides set
  KernelConfig config{};
  WorkSplit split{};
  i64 smem_bytes = 0;  // dynamic shared memory per CTA
  // Bytes that Args::workspace must have; 0: none is needed. With Combine::separate a launch is two kernels:
  // one that multiplies and one that adds up the slices. All other plans are one kernel.
  i64 workspace_bytes = 0;
  Estimate estimate{};
  PlanSource source = PlanSource::model;
  double measured_us = 0;  // from the tuning record of this choice; 0 without a record
  // True: the record and its time are for the product alone, without gate and scale of D, and for packed
  // weights also without residual and norm.
  bool product_alone = false;
};

/// Choices that replace the planner's; fields that are not set are left to its model. tile_m counts rows of A
/// per CTA, tile_n columns of A B (twice those of D if gated). With packed weights the model chooses among
/// the kernels (narrow, wide, strip) that have all set fields. For other products: setting any field but
/// workspace_limit, ignore_records and overlap excludes swapped operands, unless `swapped` is true. Then m
/// and n of tile, cluster and raster are the problem's. With swapped = true they are those of the product B
/// by A (16-bit D that TMA can store, no residual, gate or block scales). Records are ignored once any field
/// but workspace_limit and overlap is set.
struct PlanOverrides {
  std::optional<Schedule> schedule{};
  std::optional<int> tile_m{}, tile_n{}, stages{};
  std::optional<int> warps{};     // plain schedules and narrow
  std::optional<int> w_stages{};  // wide
  std::optional<int> k_groups{};  // strip
  std::optional<int> ctas{};      // narrow
  std::optional<ClusterShape> cluster{};
  std::optional<StorePath> store{};
  std::optional<bool> swapped{};  // true: multiply B by A instead of A by B; false: never
  std::optional<Raster> raster{};
  std::optional<int> raster_group{};
  std::optional<int> clusters{};         // launched clusters
  std::optional<int> splits{};           // slices of every tile along k; 1: whole tiles. Sets clusters
  std::optional<Combine> combine{};      // how slices of a tile are combined; splits nothing by itself
  std::optional<i64> workspace_limit{};  // most workspace bytes of a plan; default: kWorkspaceLimit
  bool ignore_records = false;           // plan as if the problem had no record
  Overlap overlap{};  // for chains of launches (sluice/chain.h); applied to every plan, also to one from a
                      // record

  bool operator==(const PlanOverrides&) const = default;
};

namespace gemm {

/// Checks the problem and chooses kernel, config and work split for `device`: those of its record, if
/// `records` has one that is still valid, else the model's best. Limits of packed weights (Matrix::packed)
/// are in docs/packed.md. Errors: invalid_size, invalid_type, invalid_stride, misaligned (strides),
/// invalid_config (overrides, the format of packed weights), unsupported_arch.
Result<Plan> plan(const Problem& problem, const DeviceInfo& device, const PlanOverrides& overrides = {},
                  const RecordBook& records = shipped_records());

/// All plans that the planner's model considers, best estimate first; tuning measures these.
Result<std::vector<Plan>> candidates(const Problem& problem, const DeviceInfo& device,
                                     const PlanOverrides& overrides = {});

/// Returns the plan with another overlap, without planning again. Error invalid_config: its kernel cannot
/// overlap (Combine::separate).
Result<Plan> with_overlap(Plan plan, const Overlap& overlap);

}  // namespace gemm

/// Returns the line of a plan's description that says which convolution it computes.
std::string conv_line(const Conv& conv, const std::string& remark = "");

namespace conv {

/// The product that computes `conv`. With one tap, stride 1 and no padding nothing is gathered, and it is a
/// plain product. `inputs`: the type of both tensors that are read; `output`: the type of the result. The
/// epilogue's columns are filters (fprop), channels (dgrad), or taps x channels (wgrad). Errors:
/// invalid_size, invalid_type, invalid_stride, misaligned, invalid_argument (no op).
Result<Problem> problem(const Conv& conv, DType inputs, DType output, const Epilogue& epilogue = {});

}  // namespace conv

const char* name_of(PlanSource source);

/// The canonical text of a value: a C++ designated initialiser, used in logs, cache keys, JIT units and
/// tests.
std::string to_string(const KernelConfig& config);
std::string to_string(const Problem& problem);
std::string to_string(const WorkSplit& split);
/// The config on one line for readers, e.g. "ping_pong 128x128x64 s5 c2x1 bf16".
std::string short_name(const KernelConfig& config);
/// The problem, plan and estimate as aligned lines of text; printed by `sluice plan`.
std::string describe(const Plan& plan);

}  // namespace sluice
