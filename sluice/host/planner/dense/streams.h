// SPDX-License-Identifier: Apache-2.0
// Which splits along k are worth a look, and which are possible at all (spec/work_split.h says what they
// are). Called by candidates.cc; ops/gemm.cc asks the rule of plans made by hand.
#pragma once

#include <string>
#include <vector>

#include <sluice/plan.h>

namespace sluice {

/// Ways in which the parts of a split tile come together that are worth a look. They keep what the problem
/// promises; where one is always the cheapest, it is the only one.
std::vector<Combine> combines_of_parts(const Problem& problem);

/// False for kernels of convolutions that were never the fastest in 9,000 timings of 100 cases. They are
/// parts that a last arriver adds up, parts of lone CTAs and of clusters along k, and clusters along k but
/// for a wgrad's of two and four. The model errs most there (docs/findings/convolutions.md).
bool may_win(const Problem& problem, const KernelConfig& config, bool in_parts);

/// The rule that a split breaks; empty: none. A split that streams nothing breaks none.
std::string stream_problem(const Problem& problem, const KernelConfig& config, const WorkSplit& split);

/// Among how many clusters PlanOverrides::streamed deals tiles out: as many as it asks for, else as are
/// resident at once and have a k-tile each.
i64 clusters_to_stream(const Problem& problem, const KernelConfig& config, const DeviceInfo& device,
                       const PlanOverrides& overrides);

/// Splits along k, for a config that combines, of the tiles of `whole`, which splits nothing: each into as
/// many parts as fill one wave, or less of it. What `overrides` ask for, and nothing else, if they ask. All
/// pass stream_problem() and the workspace limit.
std::vector<WorkSplit> stream_splits(const Problem& problem, const KernelConfig& config,
                                     const DeviceInfo& device, const WorkSplit& whole,
                                     const PlanOverrides& overrides);

}  // namespace sluice
