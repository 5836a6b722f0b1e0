// SPDX-License-Identifier: Apache-2.0
// Decides which splits along k are worth trying, and which are possible (spec/work_split.h defines them).
// Called by candidates.cc; ops/gemm.cc checks plans made by hand with slices_problem().
#pragma once

#include <string>
#include <vector>

#include <sluice/plan.h>

namespace sluice {

/// Returns the ways of adding up the slices of a tile that are worth trying. All keep the problem's promise
/// of determinism. If one is always the fastest, it is the only one.
std::vector<Combine> combines_of_parts(const Problem& problem);

/// Returns false for kernels of convolutions that were never the fastest in 9,000 timings of 100 cases
/// (docs/findings/convolutions.md), where the model is least accurate. `in_parts`: k is split into slices.
/// The kernels are slices that a last arriver adds up, slices of CTAs without a cluster, and slices of
/// clusters along k. Without slices, they are clusters along k, except for a wgrad's of two and four.
bool may_win(const Problem& problem, const KernelConfig& config, bool in_parts);

/// Returns the rule that a split breaks; empty: none. A split with whole tiles breaks none.
std::string slices_problem(const Problem& problem, const KernelConfig& config, const WorkSplit& split);

/// Returns `whole` with every tile cut into `slices` slices; at most 2^31 - 1 clusters.
WorkSplit split_into(const Problem& problem, const KernelConfig& config, WorkSplit whole, i64 slices);

/// Returns splits along k for a config that combines. `whole`: the split with whole tiles. Each split cuts
/// every tile into as many slices as fill one wave or less. If the overrides ask for a split, only that one
/// is returned. All pass slices_problem() and the workspace limit.
std::vector<WorkSplit> splits_along_k(const Problem& problem, const KernelConfig& config,
                                      const DeviceInfo& device, const WorkSplit& whole,
                                      const PlanOverrides& overrides);

}  // namespace sluice
