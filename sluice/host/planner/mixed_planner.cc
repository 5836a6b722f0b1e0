// SPDX-License-Identifier: Apache-2.0
// From a mixed problem to a plan: checks, all configurations of the narrow kernel that fit, and the best of
// them by the model. Pure: the same arguments give the same plan everywhere. tests/plans/mixed holds choices
// as text.
#include <algorithm>

#include <sluice/host/planner/mixed_checks.h>
#include <sluice/host/planner/mixed_cost_model.h>
#include <sluice/host/planner/problem_checks.h>

namespace sluice::mixed {
namespace {

constexpr int kRowBlocks[] = {4, 2, 8};
constexpr int kWarps[] = {8, 4, 12, 16};
constexpr int kStages[] = {3, 4, 2, 5, 6};
constexpr int kParts[] = {1, 2, 4, 8};
constexpr int kCtas[] = {1, 2, 3};

/// The smallest tile that holds all tokens (more than 32 are several tiles), and its half: two of those may
/// be faster than one that is short of registers.
std::vector<int> fitting_token_blocks(i64 m) {
  if (m <= kTokenBlock) return {1};
  if (m <= 2 * kTokenBlock) return {2, 1};
  return {4, 2};
}

int share_of_registers(const NarrowConfig& c) {
  return min(255, (1 << 16) / (threads_of(c) * c.ctas) / 8 * 8);
}

/// nullptr, or why the planner itself would not choose it: the CTAs that shall share an SM must be there, the
/// ring no longer than a warp's work, registers enough, and parts of k not empty.
const char* why_not_wanted(const MixedProblem& p, const NarrowConfig& c, const DeviceInfo& device) {
  if (estimate_registers(c) > share_of_registers(c)) return "so many warps leave too few registers";
  const i64 k_tiles = std::max<i64>(packed_k_tiles(p.k), 1);
  if (c.parts > k_tiles) return "parts must be at most the k-tiles";
  if (c.warps > 4 && c.warps * c.parts > k_tiles) return "there are fewer k-tiles than warps";
  if (c.stages > 2 && (c.stages - 1) * c.warps * c.parts >= k_tiles + c.warps * c.parts)
    return "the ring is longer than a warp's share of k";
  const i64 ctas = ceil_div(p.n, i64{tile_rows(c)}) * c.parts * ceil_div(p.m, i64{tile_tokens(c)});
  if (ctas <= i64{device.sm_count} * (c.ctas - 1)) return "there are too few CTAs to share an SM";
  return nullptr;
}

/// `values`, or the one that the caller asks for.
template <std::size_t kCount>
std::vector<int> axis(const int (&values)[kCount], const std::optional<int>& asked) {
  if (asked) return {*asked};
  return {std::begin(values), std::end(values)};
}

/// Everything to try, in the order that settles ties.
std::vector<NarrowConfig> space(const MixedProblem& p, const Overrides& o) {
  std::vector<NarrowConfig> configs;
  NarrowConfig c = config_for(p);
  const std::vector<int> token_blocks =
      o.token_blocks ? std::vector<int>{*o.token_blocks} : fitting_token_blocks(p.m);
  for (const int tokens : token_blocks)
    for (const int row_blocks : axis(kRowBlocks, o.row_blocks))
      for (const int warps : axis(kWarps, o.warps))
        for (const int stages : axis(kStages, o.stages))
          for (const int parts : axis(kParts, o.parts))
            for (const int ctas : axis(kCtas, o.ctas)) {
              c.token_blocks = tokens;
              c.row_blocks = row_blocks;
              c.warps = warps;
              c.stages = stages;
              c.parts = parts;
              c.ctas = ctas;
              configs.push_back(c);
            }
  return configs;
}

/// Best first. `rule`: what a config broke; better one of this problem's than one of all.
std::vector<Plan> usable_plans(const MixedProblem& p, const DeviceInfo& device, const Overrides& overrides,
                               const char*& rule) {
  std::vector<Plan> wanted, possible;
  bool of_problem = false;
  for (const NarrowConfig& c : space(p, overrides)) {
    if (const char* broken = validate(c)) {
      if (!of_problem) rule = broken;
      continue;
    }
    if (const char* broken = why_not(p, c)) {
      rule = broken;
      of_problem = true;
      continue;
    }
    Plan plan = plan_of(p, c);
    plan.estimate_us = is_empty(p) ? 0.0 : estimate_us(p, c, device);
    (why_not_wanted(p, c, device) == nullptr ? wanted : possible).push_back(plan);
  }
  std::vector<Plan>& plans = wanted.empty() ? possible : wanted;
  std::stable_sort(plans.begin(), plans.end(),
                   [](const Plan& x, const Plan& y) { return x.estimate_us < y.estimate_us; });
  return plans;
}

std::string text(const Overrides& o) {
  std::string out;
  const struct {
    const char* name;
    const std::optional<int>& value;
  } fields[] = {{"token_blocks", o.token_blocks},
                {"row_blocks", o.row_blocks},
                {"warps", o.warps},
                {"stages", o.stages},
                {"parts", o.parts},
                {"ctas", o.ctas}};
  for (const auto& [name, value] : fields)
    if (value) out += (out.empty() ? "" : ", ") + std::string(name) + " = " + std::to_string(*value);
  return out.empty() ? "no overrides" : out;
}

}  // namespace

Result<std::vector<Plan>> candidates(const MixedProblem& problem, const DeviceInfo& device,
                                     const Overrides& overrides) {
  if (Result<void> usable = check_device(device); !usable) return usable.error();
  const Result<MixedProblem> checked = check_problem(problem);
  if (!checked) return checked.error();
  const char* rule = "";
  std::vector<Plan> plans = usable_plans(*checked, device, overrides, rule);
  if (plans.empty())
    return Error{ErrorCode::invalid_config,
                 text(overrides) + ": no configuration is left, because " + rule + "; give fewer overrides"};
  return plans;
}

Result<Plan> plan(const MixedProblem& problem, const DeviceInfo& device, const Overrides& overrides) {
  Result<std::vector<Plan>> plans = candidates(problem, device, overrides);
  if (!plans) return plans.error();
  return std::move(plans->front());
}

}  // namespace sluice::mixed
