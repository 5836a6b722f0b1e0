// SPDX-License-Identifier: Apache-2.0
// Finds every plan worth considering for a problem that problem_checks.h accepts, best estimate first.
// Deterministic: plans with equal estimates stay in the registry's order. Called by planner.cc.
#pragma once

#include <optional>
#include <vector>

#include <sluice/records.h>

namespace sluice {

/// Most cluster tiles of a launch. A cluster counts tiles in an int, and steps past the last one once.
inline constexpr i64 kMaxClusterTiles = i64{1} << 30;

/// Returns the raster that moves the fewest bytes, and as many clusters as fit on the GPU or are needed.
/// Fields that `overrides` sets are kept. k is not split.
WorkSplit choose_split(const Problem& problem, const KernelConfig& config, const DeviceInfo& device,
                       const PlanOverrides& overrides);

/// Returns all candidates. `problem` is checked and has its strides filled in. Errors: invalid_config (the
/// overrides leave no configuration; the message says which rule they break), invalid_size.
Result<std::vector<Plan>> rank_candidates(const Problem& problem, const DeviceInfo& device,
                                          const PlanOverrides& overrides);

/// Returns the plan of a choice, without a search: that of rank_candidates() with this kernel, split and
/// numbering. Nullopt if the choice breaks a rule, or the registry no longer lists it. `problem` is checked
/// and not packed.
std::optional<Plan> dense_plan_of(const TunedChoice& choice, const Problem& problem,
                                  const DeviceInfo& device);

/// Returns the best plan with this config, which rank_candidates() returned for a problem of other sizes.
/// Nullopt if rank_candidates() would not consider it for this problem; the width of its tiles need not be
/// listed. Clusters are numbered in launch order. `problem` is checked, has its strides filled in, and is not
/// empty.
std::optional<Plan> plan_with(const Problem& problem, const KernelConfig& config, const DeviceInfo& device);

namespace gemm {

/// Returns the plan of a known choice: of a record, or of a tuned step of a chain. Nothing is searched.
/// Nullopt if it breaks a rule, or the planner would not consider it: another version wrote it, or somebody
/// edited it. `checked` has its strides filled in.
std::optional<Plan> plan_of(const TunedChoice& choice, const Problem& checked, const DeviceInfo& device);

/// Returns the plan of the problem's tuning record, or of one for a product with the same loads. Nullopt
/// if there is none that plan_of() accepts: then the model decides. `checked` has its strides filled in.
std::optional<Plan> recorded_plan(const Problem& checked, const DeviceInfo& device,
                                  const RecordBook& records);

}  // namespace gemm

}  // namespace sluice
