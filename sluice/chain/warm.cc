// SPDX-License-Identifier: Apache-2.0
// Decides which weights each step brings into L2: an equal share of every run of their rows. A product takes
// as long as its slowest CTA. The first bytes of B would serve some CTAs wholly and others not at all, and so
// gain nothing (docs/findings/chains-windows.md).
#include <algorithm>

#include <sluice/chain/chain.h>

namespace sluice {
namespace {

constexpr size_t kFarthest = 4;  // launches ahead; weights for a farther launch are evicted before it runs

/// Returns the part of each row that a launch loads into its rings before it waits.
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
  std::vector<bool> served(launched.size());  // true: a step in front brings the launch's share
  for (size_t i = 0; i < launched.size(); ++i) {
    PlannedStep& s = *launched[i];
    const auto step = step_of(s.step);
    if (step->own_overlap()) continue;
    const i64 own = std::min(s.step.prefetch_bytes.value_or(options.prefetch_bytes), most);
    if (s.overlap.wait != Wait::none && !served[i])
      s.prefetch = step->share_of_weights(own, ring_of(s, plan, device));
    s.prefetch.ctas = static_cast<u32>(device.sm_count);  // any launch has so many CTAs at once
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
