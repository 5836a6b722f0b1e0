// SPDX-License-Identifier: Apache-2.0
// Plans of packed products: that of a record, or all that fit, best estimate first. Called by planner.cc.
// Pure: equal arguments give equal plans. tests/plans/packed holds the model's choices as text.
#include <algorithm>
#include <span>

#include <sluice/plan/constants.h>
#include <sluice/plan/dense/cluster_grid.h>
#include <sluice/plan/dense/tuned_choice.h>
#include <sluice/plan/packed/packed_cost_model.h>
#include <sluice/plan/packed/packed_plans.h>
#include <sluice/plan/packed/packed_problem_checks.h>
#include <sluice/plan/text/field_text.h>
#include <sluice/records.h>
#include <sluice/try.h>

namespace sluice::packed {
namespace {

/// Returns the smallest tile that holds all tokens (at most 32 per tile), and half of it: two half tiles may
/// be faster than one that lacks registers.
std::vector<int> fitting_token_blocks(i64 m) {
  if (m <= kTokenBlock) return {1};
  if (m <= 2 * kTokenBlock) return {2, 1};
  return {4, 2};
}

/// Returns the product of one matrix that takes about as long as products of groups: the rows of a group that
/// has some, and the outputs of all those groups. Returns other problems as they are.
Problem likely(const Problem& p) {
  if (!has_groups(p)) return p;
  Problem one = expected(p);
  one.n = p.n * std::max<i64>(one.batch, 1);
  one.batch = 1;
  return one;
}

/// Returns nullptr, or why the planner does not choose this config unless asked. It needs enough CTAs to
/// share SMs as c.ctas says, enough registers, a ring not longer than a warp's work, and no CTA or warp
/// without k-tiles.
const char* why_not_wanted(const Problem& p, const NarrowConfig& c, const DeviceInfo& device) {
  if (estimate_registers(c) > most_registers(threads_of(c), c.ctas))
    return "so many warps leave too few registers";
  const i64 k_tiles = std::max<i64>(packed_k_tiles(p.k), 1);
  if (c.parts > k_tiles) return "parts must be at most the k-tiles";
  if (c.warps > 4 && c.warps * c.parts > k_tiles) return "there are fewer k-tiles than warps";
  if (c.stages > 2 && (c.stages - 1) * c.warps * c.parts >= k_tiles + c.warps * c.parts)
    return "the ring is longer than a warp's share of k";
  const i64 ctas = ceil_div(p.n, i64{tile_rows(c)}) * c.parts * ceil_div(p.m, i64{tile_tokens(c)});
  if (ctas <= i64{device.sm_count} * (c.ctas - 1)) return "there are too few CTAs to share an SM";
  return nullptr;
}

/// Returns nullptr, or why the planner does not choose this config unless asked. Few tokens are faster with
/// the narrow kernel.
const char* why_not_wanted(const Problem& p, const WideConfig&, const DeviceInfo&) {
  return p.m <= kPlanner.search.narrow_tokens ? "so few tokens are the narrow kernel's" : nullptr;
}

/// Returns nullptr, or why the planner does not choose this config unless asked. Every CTA and warpgroup
/// needs k-tiles, and every strip rows. For 16-bit tokens the strip kernel is chosen only for medium numbers
/// (H200: the narrow kernel is 8 % faster with 16 tokens, and the wide one equal with 128).
const char* why_not_wanted(const Problem& p, const StripConfig& c, const DeviceInfo&) {
  if (is_16bit(p.a.type) && p.m <= kPlanner.search.narrow_tokens)
    return "so few tokens are the narrow kernel's";
  if (is_16bit(p.a.type) && p.m > kPlanner.search.strip_tokens) return "so many tokens are the wide kernel's";
  const i64 k_tiles = std::max<i64>(packed_k_tiles(p.k), 1), tiles_of_cta = ceil_div(k_tiles, i64{c.parts});
  if (c.parts > k_tiles) return "parts must be at most the k-tiles";
  if (c.parts > 1 && tiles_of_cta < kPlanner.search.part_k_tiles) return "parts of k are too short";
  // If a scale group is all of k, two sets of accumulators are live. For 32 tokens they spill when four
  // warpgroups share the registers.
  const bool two_sets = c.x == DType::e4m3 && c.weights.group == 0 && c.tokens > 16 && c.tokens <= 32;
  int room = two_sets ? kStripMostGroups / 2 : kStripMostGroups;
  while (c.tokens > most_strip_tokens(c.x, room)) --room;
  if (math_groups(c) > room) return "so many warpgroups leave too few registers";
  const bool few_are_enough =
      is_16bit(p.a.type) && c.tokens >= kPlanner.search.strip_group_tokens && math_groups(c) >= room / 2;
  if (2 * math_groups(c) <= room && tiles_of_cta >= kPlanner.search.part_k_tiles * c.k_groups &&
      !few_are_enough)
    return "there is work for more warpgroups, which hide one another's waits";
  if (c.k_groups > tiles_of_cta) return "there are fewer k-tiles than warpgroups";
  if (tile_columns(c) / 2 >= round_up(d_columns(p), i64{kStripRows}))
    return "half of the strips would be empty";
  return nullptr;
}

/// Returns `values`, or only the override if the caller asks for one.
template <std::size_t kCount>
std::vector<int> axis(const int (&values)[kCount], const std::optional<int>& asked) {
  if (asked) return {*asked};
  return {std::begin(values), std::end(values)};
}

/// Collects tile widths without duplicates. Of plans with equal estimates the width added first wins.
class Widths {
 public:
  explicit Widths(i64 m) : m_(m) {}
  void add(i64 tokens) {
    const int width = static_cast<int>(tokens);
    if (std::find(all_.begin(), all_.end(), width) == all_.end()) all_.push_back(width);
  }
  /// Adds those listed widths of which at least half has tokens.
  void add_listed(std::span<const int> listed) {
    for (const int width : listed)
      if (width == listed.front() || width / 2 < m_) add(width);
  }
  /// Adds the smallest multiple of `unit` with which `parts` tiles hold all tokens, if it is at most `most`.
  void add_parts(i64 parts, int unit, int most) {
    if (parts < 1 || m_ < 1) return;
    const i64 width = round_up(ceil_div(m_, parts), i64{unit});
    if (width <= most) add(width);
  }
  /// Adds widths of at most `most` tokens: for the fewest possible tiles, for a few more tiles, and for tiles
  /// that fill one, two or three waves. `row_tiles`: number of tiles along the outputs.
  void add_fitted(int unit, int most, i64 row_tiles, const DeviceInfo& device) {
    const i64 least = ceil_div(m_, i64{most});
    for (i64 parts = least; parts <= least + kPlanner.search.more_token_tiles; ++parts)
      add_parts(parts, unit, most);
    for (i64 waves = 1; waves <= kPlanner.search.fitted_waves; ++waves)
      add_parts(waves * device.sm_count / std::max(row_tiles, i64{1}), unit, most);
  }
  const std::vector<int>& all() const { return all_; }

 private:
  i64 m_;
  std::vector<int> all_;
};

std::vector<int> wide_tokens(const Problem& p, const DeviceInfo& device) {
  Widths widths(p.m);
  widths.add_listed(tried::kWideTokens);
  // Clusters and half tiles need multiples of 16 tokens.
  for (const int unit : {2 * kTokenBlock, kTokenBlock})
    widths.add_fitted(unit, kWideMostTokens, ceil_div(p.n, i64{kWideRows}), device);
  return widths.all();
}
/// Returns widths of the strip kernel. Widths below 64 are only for fewer tokens than that: each further tile
/// expands all codes again, which costs more than it saves.
std::vector<int> strip_tokens(const Problem& p, const DeviceInfo& device) {
  Widths widths(p.m);
  widths.add_listed(tried::kStripTokens);
  for (int groups = kStripMostGroups; groups > 1; --groups)
    widths.add_fitted(kTokenBlock, most_strip_tokens(p.a.type, groups),
                      ceil_div(d_columns(p), i64{kStripRows * groups}), device);
  std::vector<int> all = widths.all();
  std::erase_if(all, [&](int tokens) { return tokens < 64 && tokens < p.m; });
  return all;
}

/// The fields that the caller set, in the words of the kernels.
struct Wishes {
  bool narrow = true, wide = true, strip = true;  // kernels that have all of them
  std::optional<int> tokens{}, outputs{};         // per tile
  std::optional<int> parts{}, cluster_n{}, stages{}, w_stages{}, warps{}, ctas{}, k_groups{};

  /// Returns the outputs of a tile in units of `rows`.
  std::optional<int> in(int rows) const { return outputs ? std::optional(*outputs / rows) : std::nullopt; }
};
Wishes wishes_of(const Problem& p, const PlanOverrides& o) {
  const auto is = [&](Schedule schedule) { return !o.schedule || *o.schedule == schedule; };
  const auto whole = [](const std::optional<int>& value, int unit) { return !value || *value % unit == 0; };
  const ClusterShape c = o.cluster.value_or(ClusterShape{});
  const bool half = is_16bit(p.a.type), along_k = c.m == 1 && c.n == 1, along_n = c.m == 1 && c.k == 1;
  Wishes w{.tokens = o.tile_m,
           .outputs = o.tile_n,
           .stages = o.stages,
           .w_stages = o.w_stages,
           .warps = o.warps,
           .ctas = o.ctas,
           .k_groups = o.k_groups};
  if (o.cluster) w.parts = c.k, w.cluster_n = c.n;
  w.narrow = is(Schedule::narrow) && half && along_k && whole(o.tile_m, kTokenBlock) &&
             whole(o.tile_n, kBlockRows) && !o.k_groups && !o.w_stages;
  w.wide = is(Schedule::wide) && half && along_n && (!o.tile_n || *o.tile_n == kWideRows) && !o.k_groups &&
           !o.warps && !o.ctas;
  w.strip =
      is(Schedule::strip) && along_k && whole(o.tile_n, kStripRows) && !o.warps && !o.ctas && !o.w_stages;
  return w;
}
/// Returns nullptr, or why no kernel has all these fields.
const char* why_not_together(const Problem& p, const PlanOverrides& o) {
  if (o.store || o.swapped || o.raster || o.raster_group || o.clusters || o.splits || o.combine)
    return "store, swapped, raster, raster_group, clusters, splits and combine are for weights that are not "
           "packed; leave them out";
  if (o.schedule && !decodes(*o.schedule))
    return "schedule must be narrow, wide or strip, because the weights are packed";
  const Wishes w = wishes_of(p, o);
  if (w.narrow || w.wide || w.strip) return nullptr;
  return is_16bit(p.a.type)
             ? "no kernel for packed weights has all of them: narrow has tile_m (of 8), tile_n (of 16), "
               "stages, warps, ctas and a cluster along k; wide tile_m, tile_n = 128, stages, w_stages and a "
               "cluster along n; strip "
               "tile_m, tile_n (of 64), stages, k_groups and a cluster along k; ask for one of them"
             : "A is e4m3, whose kernel for packed weights is strip, with tile_m, tile_n (of 64), stages, "
               "k_groups and a cluster along k; leave out the others";
}

/// Returns all configs of the narrow kernel to try. Of those with equal estimates the first wins.
std::vector<NarrowConfig> narrow_space(const Problem& p, const Wishes& o) {
  std::vector<NarrowConfig> configs;
  NarrowConfig c = config_for(p);
  const std::vector<int> token_blocks =
      o.tokens ? std::vector<int>{*o.tokens / kTokenBlock} : fitting_token_blocks(likely(p).m);
  for (const int tokens : token_blocks)
    for (const int row_blocks : axis(tried::kRowBlocks, o.in(kBlockRows)))
      for (const int warps : axis(tried::kWarps, o.warps))
        for (const int stages : axis(tried::kStages, o.stages))
          for (const int parts : axis(tried::kParts, o.parts))
            for (const int ctas : axis(tried::kCtas, o.ctas)) {
              c.token_blocks = tokens;
              c.held_tokens = held_tokens_for(p, tokens);
              c.row_blocks = row_blocks;
              c.warps = warps;
              c.stages = stages;
              c.parts = parts;
              c.ctas = ctas;
              configs.push_back(c);
            }
  return configs;
}

/// Sets the stages that the caller does not set: to the first pair of tried::kXRings and tried::kWRings that
/// fits. More bytes in flight do not help.
void set_rings(WideConfig& c, const Wishes& o) {
  for (std::size_t i = 0; i < std::size(tried::kXRings); ++i) {
    c.x_stages = o.stages.value_or(tried::kXRings[i]);
    c.w_stages = o.w_stages.value_or(tried::kWRings[i]);
    if (validate(c) == nullptr) break;
  }
}

/// Returns all configs of the wide kernel to try.
std::vector<WideConfig> wide_space(const Problem& p, const DeviceInfo& device, const Wishes& o) {
  std::vector<WideConfig> configs;
  WideConfig c = wide_config_for(p);
  for (const int tokens : o.tokens ? std::vector<int>{*o.tokens} : wide_tokens(p, device)) {
    for (const int n : axis(tried::kWideClusters, o.cluster_n)) {
      c.tokens = tokens;
      c.cluster_n = n;
      set_rings(c, o);
      configs.push_back(c);
    }
  }
  return configs;
}

/// Returns the stages of the deepest ring that fits into `room` bytes, and not more than a CTA has k-tiles.
/// All its copies are in flight at once. Each warpgroup has its own stages, at least two.
int deepest_ring(const Problem& p, StripConfig c, i64 room) {
  const i64 tiles_of_cta = ceil_div(std::max<i64>(packed_k_tiles(p.k), 1), i64{std::max(c.parts, 1)});
  const int groups = std::max(c.k_groups, 1);
  const i64 turns = std::max(ceil_div(tiles_of_cta, i64{groups}), i64{2});
  c.stages = static_cast<int>(std::min<i64>(kPlanner.search.strip_stages / groups, turns)) * groups;
  while (c.stages > 2 * groups && (validate(c) != nullptr || smem_bytes(c) > room)) c.stages -= groups;
  return c.stages;
}

/// Returns all configs of the strip kernel to try, with rings that fit into `room` bytes of shared memory.
std::vector<StripConfig> strip_space(const Problem& p, const DeviceInfo& device, const Wishes& o,
                                     i64 room = kMaxSmemBytes) {
  std::vector<StripConfig> configs;
  StripConfig c = strip_config_for(p);
  const bool half = is_16bit(p.a.type);
  for (const int tokens : o.tokens ? std::vector<int>{*o.tokens} : strip_tokens(p, device)) {
    for (const int strips : axis(tried::kStrips, o.in(kStripRows)))
      for (const int k_groups :
           half ? axis(tried::kHalfKGroups, o.k_groups) : axis(tried::kKGroups, o.k_groups))
        for (const int parts : half ? axis(tried::kHalfParts, o.parts) : axis(tried::kParts, o.parts)) {
          c.tokens = tokens;
          c.strips = strips;
          c.k_groups = k_groups;
          c.parts = parts;
          c.stages = o.stages.value_or(deepest_ring(p, c, room));
          configs.push_back(c);
        }
  }
  return configs;
}

template <class List>
bool lists(const List& values, int value) {
  return std::find(std::begin(values), std::end(values), value) != std::end(values);
}
/// Returns whether narrow_space(), wide_space() or strip_space() has the config. (The last also with rings
/// that fit into half of an SM, see strip_halves().)
bool is_tried(const Problem& p, const NarrowConfig& c, const DeviceInfo&) {
  return is_16bit(p.a.type) && lists(fitting_token_blocks(likely(p).m), c.token_blocks) &&
         lists(tried::kRowBlocks, c.row_blocks) && lists(tried::kWarps, c.warps) &&
         lists(tried::kStages, c.stages) && lists(tried::kParts, c.parts) && lists(tried::kCtas, c.ctas);
}
bool is_tried(const Problem& p, const WideConfig& c, const DeviceInfo& device) {
  WideConfig with_rings = c;
  set_rings(with_rings, {});
  return is_16bit(p.a.type) && with_rings == c && lists(wide_tokens(p, device), c.tokens) &&
         lists(tried::kWideClusters, c.cluster_n);
}
bool is_tried(const Problem& p, const StripConfig& c, const DeviceInfo& device) {
  const bool half = is_16bit(p.a.type);
  const bool has_ring =
      c.stages == deepest_ring(p, c, kMaxSmemBytes) ||
      (!half && smem_bytes(c) <= kBesideAlone && c.stages == deepest_ring(p, c, kBesideAlone));
  return has_ring && lists(strip_tokens(p, device), c.tokens) && lists(tried::kStrips, c.strips) &&
         (half ? lists(tried::kHalfKGroups, c.k_groups) && lists(tried::kHalfParts, c.parts)
               : lists(tried::kKGroups, c.k_groups) && lists(tried::kParts, c.parts));
}

struct Found {
  std::vector<Plan> wanted, possible;
  const char* rule = "";  // a rule that a config broke; preferably one about this problem
  bool of_problem = false;
};

template <class Config>
void consider(const Problem& p, const DeviceInfo& device, const std::vector<Config>& configs, Found& found) {
  for (const Config& c : configs) {
    if (const char* broken = validate(c)) {
      if (!found.of_problem) found.rule = broken;
      continue;
    }
    if (const char* broken = why_not(p, c)) {
      found.rule = broken;
      found.of_problem = true;
      continue;
    }
    Plan plan = plan_for(p, config_of(c));
    plan.estimate.total_us = is_empty(p) ? 0.0 : estimate_us(likely(p), c, device);
    (why_not_wanted(likely(p), c, device) == nullptr ? found.wanted : found.possible).push_back(plan);
  }
}

void sort_by_estimate(std::vector<Plan>& plans) {
  std::stable_sort(plans.begin(), plans.end(),
                   [](const Plan& x, const Plan& y) { return x.estimate.total_us < y.estimate.total_us; });
}

/// Returns the plans that the planner wants, or if there are none all that are possible; best estimate first.
std::vector<Plan> sorted(Found& found) {
  std::vector<Plan>& plans = found.wanted.empty() ? found.possible : found.wanted;
  sort_by_estimate(plans);
  return std::move(plans);
}

/// Returns all plans that the overrides allow, for a checked problem.
Found consider_all(const Problem& p, const DeviceInfo& device, const PlanOverrides& overrides) {
  Found found;
  const Wishes wishes = wishes_of(p, overrides);
  if (wishes.narrow) consider(p, device, narrow_space(p, wishes), found);
  if (wishes.wide) consider(p, device, wide_space(p, device, wishes), found);
  if (wishes.strip) consider(p, device, strip_space(p, device, wishes), found);
  return found;
}

/// Returns plans of the strip kernel for e4m3 tokens whose rings use at most half of an SM's shared memory,
/// best first. The other half is for the next launch of a chain. By themselves they are not faster than
/// others.
std::vector<Plan> strip_halves(const Problem& p, const DeviceInfo& device, const PlanOverrides& overrides) {
  if (p.a.type != DType::e4m3 || overrides.stages) return {};
  Found found;
  consider(p, device, strip_space(p, device, wishes_of(p, overrides), kBesideAlone), found);
  std::vector<Plan> halves = std::move(found.wanted);
  halves.insert(halves.end(), found.possible.begin(), found.possible.end());
  std::erase_if(halves, [](const Plan& plan) { return plan.smem_bytes > kBesideAlone; });
  sort_by_estimate(halves);
  return halves;
}

std::string plain_text(const ClusterShape& c) {
  return std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k);
}
template <class T>
std::string plain_text(const T& value) {
  if constexpr (Enumerated<T>) return name_of(value);
  return text_of(value);
}
std::string text(const PlanOverrides& o) {
  std::string out;
  for_each_field(o, [&](const auto& row, const auto& value) {
    if constexpr (kIsOptional<std::remove_cvref_t<decltype(value)>>)
      if (value) out += (out.empty() ? "" : ", ") + std::string(row.name) + " = " + plain_text(*value);
  });
  return out.empty() ? "no overrides" : out;
}

}  // namespace

std::optional<Plan> plan_of(const TunedChoice& choice, const Problem& checked, const DeviceInfo& device) {
  if (!decodes(choice.schedule)) return std::nullopt;
  const KernelConfig config = made_for(checked, config_of(choice));
  const bool tried = visit_decoder(
      config, [&](const auto& c) { return validate(c) == nullptr && is_tried(checked, c, device); });
  return tried ? plan_with(checked, config, device, Taste::possible) : std::nullopt;
}

std::optional<Plan> plan_with(const Problem& p, const KernelConfig& config, const DeviceInfo& device,
                              Taste taste) {
  return visit_decoder(config, [&](const auto& c) -> std::optional<Plan> {
    if (why_not(p, c) != nullptr) return std::nullopt;
    if (taste == Taste::wanted && why_not_wanted(likely(p), c, device) != nullptr) return std::nullopt;
    Plan plan = plan_for(p, config_of(c));
    plan.estimate.total_us = is_empty(p) ? 0.0 : estimate_us(likely(p), c, device);
    return plan;
  });
}

Result<std::vector<Plan>> ranked(const Problem& checked, const DeviceInfo& device,
                                 const PlanOverrides& overrides) {
  if (const char* rule = why_not_together(checked, overrides))
    return Error{ErrorCode::invalid_config, text(overrides) + ": " + rule};
  Found found = consider_all(checked, device, overrides);
  std::vector<Plan> plans = sorted(found);
  if (plans.empty())
    return Error{ErrorCode::invalid_config, text(overrides) + ": no configuration is left, because " +
                                                found.rule + "; give fewer overrides"};
  return plans;
}

Result<std::vector<Plan>> candidates(const Problem& checked, const DeviceInfo& device,
                                     const PlanOverrides& overrides) {
  Result<std::vector<Plan>> plans = ranked(checked, device, overrides);
  if (!plans) return plans;
  for (const Plan& half : strip_halves(checked, device, overrides)) {
    const auto same = [&](const Plan& other) { return other.config == half.config; };
    if (std::none_of(plans->begin(), plans->end(), same)) plans->push_back(half);
  }
  return plans;
}

}  // namespace sluice::packed
