// SPDX-License-Identifier: Apache-2.0
// A plan holds every decision about a problem. Planning is pure: no GPU, no clock, no environment. The same
// problem, device, overrides and records give the same plan everywhere.
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

/// The source of a plan. record: a measurement of this problem, or of its product alone (sluice/records.h).
/// model: the cost model, with the caller's overrides if there are any.
enum class PlanSource { model, record };

struct Plan {
  Problem problem{};  // strides filled in
  KernelConfig config{};
  WorkSplit split{};
  i64 smem_bytes = 0;  // dynamic shared memory of a CTA
  // Bytes that Args::workspace must hold; 0: the launch needs none. With Combine::separate a launch is two
  // kernels: one that multiplies, one that adds up the slices. All other plans are one kernel.
  i64 workspace_bytes = 0;
  Estimate estimate{};
  PlanSource source = PlanSource::model;
  double measured_us = 0;      // from the record of this choice; 0 without one
  bool product_alone = false;  // the record, and its time, are of the product without gate and scale of D
};

/// Fields that are set overrule the planner; its model chooses the rest. Unless `swapped` is set, any field
/// but workspace_limit, ignore_records and overlap means A by B: m and n of tile, cluster and raster are the
/// problem's. With swapped = true they are those of B by A (16-bit D that TMA can store, no residual, gate or
/// block scales). Records are ignored once any field but workspace_limit and overlap is set.
struct PlanOverrides {
  std::optional<Schedule> schedule{};
  std::optional<int> tile_m{}, tile_n{}, stages{}, warps{};  // warps: plain schedules only
  std::optional<ClusterShape> cluster{};
  std::optional<StorePath> store{};
  std::optional<bool> swapped{};  // true: B by A in place of A by B; false: never
  std::optional<Raster> raster{};
  std::optional<int> raster_group{};
  std::optional<Numbering> numbering{};
  std::optional<int> clusters{};  // launched clusters
  std::optional<int> streamed{};  // cluster tiles dealt out by k-tile (spec/work_split.h); 0: none
  // splits all tiles into so many slices along k; 1: none. Sets clusters and streamed
  std::optional<int> splits{};
  std::optional<Combine> combine{};      // how shared tiles come together; splits nothing by itself
  std::optional<i64> workspace_limit{};  // bytes a plan may ask for; kWorkspaceLimit without it
  bool ignore_records = false;           // plan as if the problem had never been tuned
  Overlap overlap{};  // applied to the plan from any source; for chains of launches (sluice/chain.h)

  bool operator==(const PlanOverrides&) const = default;
};

namespace gemm {

/// Checks the problem and picks kernel, config and work split for `device`: those of its record, if `records`
/// has one that still fits, else the model's best. Errors: invalid_size, invalid_type, invalid_stride,
/// misaligned (strides), invalid_config (overrides), unsupported_arch.
Result<Plan> plan(const Problem& problem, const DeviceInfo& device, const PlanOverrides& overrides = {},
                  const RecordBook& records = shipped_records());

/// All plans that the planner's model would consider, best estimate first; a tuner measures these.
Result<std::vector<Plan>> candidates(const Problem& problem, const DeviceInfo& device,
                                     const PlanOverrides& overrides = {});

}  // namespace gemm

const char* name_of(PlanSource source);

/// The one text form of a value: a C++ designated initialiser, used in logs, cache keys, JIT units and tests.
std::string to_string(const KernelConfig& config);
std::string to_string(const Problem& problem);
std::string to_string(const WorkSplit& split);
/// One line for people, e.g. "ping_pong 128x128x64 s5 c2x1 bf16".
std::string short_name(const KernelConfig& config);
/// The problem and plan as a few aligned lines with the estimate; what `sluice plan` prints.
std::string describe(const Plan& plan);

}  // namespace sluice
