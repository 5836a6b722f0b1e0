// SPDX-License-Identifier: Apache-2.0
// Decides which weights each step prefetches into L2: an equal share of each row. A product takes as long as
// its slowest CTA. If the share were the first bytes of B, some CTAs would find all of their weights in L2
// and others none, which gains nothing (docs/findings/chains-windows.md).
#include <algorithm>

#include <sluice/chain/chain.h>

namespace sluice {
namespace {

// Launches ahead for which a launch may prefetch weights. Those for a later one would be evicted first.
constexpr size_t kFarthest = 4;

/// Returns the part of each row that a launch loads into its rings of stages before its PDL wait.
SkippedK ring_of(const PlannedStep& s, const ChainPlan& plan, const DeviceInfo& device) {
  if (s.overlap.wait != Wait::weights_first) return {};
  return step_of(s.step)->ring(plan_of(plan, s), device);
}

}  // namespace

void set_warm_ranges(ChainPlan& plan, const ChainOptions& options, const DeviceInfo& device) {
  const i64 most = static_cast<i64>(kMostOfL2 * static_cast<double>(device.l2_bytes));
  std::vector<PlannedStep*> launched;
  for (PlannedStep& s : plan.steps)
    if (s.launched) launched.push_back(&s);
  std::vector<bool> served(launched.size());  // true: an earlier step prefetches the launch's share
  for (size_t i = 0; i < launched.size(); ++i) {
    PlannedStep& s = *launched[i];
    const auto step = step_of(s.step);
    if (step->own_overlap()) continue;
    const i64 own = std::min(s.step.prefetch_bytes.value_or(options.prefetch_bytes), most);
    if (s.overlap.wait != Wait::none && !served[i])
      s.prefetch = step->share_of_weights(own, ring_of(s, plan, device));
    // Number of CTAs that prefetch. Any launch has at least that many resident CTAs.
    s.prefetch.ctas = static_cast<u32>(device.sm_count);
    if (!overlaps(s.overlap)) continue;
    const i64 given = std::min(s.step.hand_off_bytes.value_or(options.hand_off_bytes), most);
    const size_t end = std::min(launched.size(), i + 1 + kFarthest);
    for (size_t to = i + 1; to < end && !served[to] && total_bytes(s.hand_off) == 0; ++to) {
      s.hand_off = step_of(launched[to]->step)->share_of_weights(given, ring_of(*launched[to], plan, device));
      served[to] = total_bytes(s.hand_off) > 0;
    }
  }
}

}  // namespace sluice
