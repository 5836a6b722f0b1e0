// SPDX-License-Identifier: Apache-2.0
// Implements candidates.h. The configurations to try are the registry's. Overrides filter them. If none is
// left, configurations are tried that the registry does not list but the kernel supports.
#include <sluice/plan/dense/candidates.h>
#include <sluice/plan/field_checks.h>

#include <algorithm>
#include <span>
#include <tuple>

#include <sluice/kernels/registry.h>
#include <sluice/plan/constants.h>
#include <sluice/plan/dense/cluster_grid.h>
#include <sluice/plan/dense/cost_model.h>
#include <sluice/plan/dense/group_rules.h>
#include <sluice/plan/dense/numbering.h>
#include <sluice/plan/dense/plain_plans.h>
#include <sluice/plan/dense/problem_checks.h>
#include <sluice/plan/dense/slices.h>
#include <sluice/plan/dense/traffic.h>
#include <sluice/plan/dense/tuned_choice.h>
#include <sluice/plan/limits.h>
#include <sluice/plan/text/fields.h>
#include <sluice/spec/smem_layout.h>
#include <sluice/try.h>

namespace sluice {
namespace {

bool too_many_tiles(const Problem& p, const KernelConfig& c) {
  return grid_tiles(p, c) > static_cast<double>(kMaxClusterTiles);
}

/// Returns tiles for swapped operands: every tile height of the registry, with every width that divides the
/// columns of the swapped product evenly. Empty if the product is unsuited and the caller did not ask for it.
std::vector<BaseConfig> swapped_space(const Problem& product, bool asked) {
  std::vector<BaseConfig> space;
  if (!asked && (product.n > kPlanner.search.swapped_rows || product.m < product.n)) return space;
  for (const BaseConfig& height : kHeights)
    for (int parts = 1; parts <= kMostSwappedParts; ++parts) {
      const BaseConfig base{height.schedule, height.tile_m, width_of_parts(product, parts)};
      const bool known = !space.empty() && space.back() == base;
      if (base.tile_n > 0 && !known) space.push_back(base);
    }
  return space;
}

/// Returns every tile height of the registry with the widths that make the tiles fill exactly one, two or
/// three waves of CTAs without clusters. With a listed width a fifth of the SMs may have no tile in the last
/// wave (docs/findings/fitted-widths.md).
std::vector<BaseConfig> fitted_space(const Problem& product, const DeviceInfo& device) {
  std::vector<BaseConfig> space;
  const Problem likely = expected(product);
  for (const BaseConfig& height : kHeights) {
    const i64 rows = std::max(ceil_div(likely.m, i64{height.tile_m}) * likely.batch, i64{1});
    for (i64 waves = 1; waves <= kPlanner.search.fitted_waves; ++waves) {
      const i64 columns = waves * device.sm_count / rows;
      if (columns == 0) continue;
      const BaseConfig base{height.schedule, height.tile_m, width_of_parts(product, columns)};
      if (base.tile_n >= kPlanner.search.fitted_width) space.push_back(base);
    }
  }
  return space;
}

std::vector<ClusterShape> clusters_of(const PlanOverrides& o) {
  if (o.cluster) return {*o.cluster};
  return {std::begin(kClusterSpace), std::end(kClusterSpace)};
}

/// Returns tiles for a wgrad: every tile height of the registry, 64 to 256 channels of a filter tap wide.
std::vector<BaseConfig> atom_space() {
  std::vector<BaseConfig> space;
  for (const BaseConfig& height : kHeights)
    for (int width = kMnBlock; width <= 4 * kMnBlock; width += kMnBlock)
      space.push_back({height.schedule, height.tile_m, width});
  return space;
}

/// Returns the tiles of the registry, and the fitted ones, that the overrides allow. `product` decides the
/// widths of fitted tiles.
std::vector<BaseConfig> listed_bases(const Problem& product, const DeviceInfo& device,
                                     const PlanOverrides& o) {
  std::vector<BaseConfig> bases(std::begin(kGemmSpace), std::end(kGemmSpace));
  if (is_transposed(product)) bases = swapped_space(product, o.swapped.has_value());
  if (product.conv.op == ConvOp::wgrad)
    bases = atom_space();
  else
    for (const BaseConfig& fitted : fitted_space(product, device))
      if (std::find(bases.begin(), bases.end(), fitted) == bases.end()) bases.push_back(fitted);
  std::erase_if(bases, [&](const BaseConfig& base) {
    return base.schedule != o.schedule.value_or(base.schedule) ||
           base.tile_m != o.tile_m.value_or(base.tile_m) || base.tile_n != o.tile_n.value_or(base.tile_n);
  });
  return bases;
}

/// Returns tiles that the registry need not list: the overrides' schedule, height and width, and every listed
/// value for those that the caller leaves open.
std::vector<BaseConfig> unlisted_bases(const PlanOverrides& o) {
  std::vector<BaseConfig> bases;
  for (const BaseConfig& listed : kGemmSpace) {
    const BaseConfig base{.schedule = o.schedule.value_or(listed.schedule),
                          .tile_m = o.tile_m.value_or(listed.tile_m),
                          .tile_n = o.tile_n.value_or(listed.tile_n)};
    if (std::find(bases.begin(), bases.end(), base) == bases.end()) bases.push_back(base);
  }
  return bases;
}

/// A rule that configurations broke: the first of them with its numbers, and how many there were.
struct Refusal {
  std::string rule;  // without its numbers, which differ from one configuration to the next
  std::string text;
  int count = 0;
};

std::string without_digits(std::string text) {
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

/// "splits or tile_m": the choices that the caller made.
std::string names_of_choices(const PlanOverrides& o) {
  std::string names;
  for_each_field(o, [&](const auto& row, const auto& value) {
    if constexpr (requires { value.has_value(); })
      if (value.has_value()) names += (names.empty() ? "" : " or ") + std::string(row.name);
  });
  return names;
}

/// The valid configurations, and the rules that others broke.
struct Search {
  std::vector<KernelConfig> configs;
  std::vector<Refusal> refusals;
  int refused = 0;
  bool too_many_tiles = false;

  bool found() const { return !configs.empty() || too_many_tiles; }
  void refuse(const KernelConfig& config, const std::string& text) {
    const std::string rule = without_digits(text);
    auto known = std::find_if(refusals.begin(), refusals.end(),
                              [&](const Refusal& refusal) { return refusal.rule == rule; });
    if (known == refusals.end()) known = refusals.insert(known, {rule, short_name(config) + ": " + text});
    ++known->count;
    ++refused;
  }
  /// The commonest reason, and what to do.
  Error refusal(const PlanOverrides& o) const {
    const auto most = std::max_element(refusals.begin(), refusals.end(),
                                       [](const auto& x, const auto& y) { return x.count < y.count; });
    std::string message = "the overrides leave no kernel: " + most->text;
    if (refusals.size() > 1)
      message += "; this stops " + std::to_string(most->count) + " of " + std::to_string(refused) +
                 " configurations, other rules the rest: change or leave out " + names_of_choices(o);
    return {ErrorCode::invalid_config, message};
  }
};

/// Returns whether the config has clusters along k although its tiles need more than one wave. Such clusters
/// are for tiles too few to fill the GPU. Over several waves they lose L2 sharing: of 357 tuned problems none
/// gained 1 % from that, and one lost half.
bool splits_more_than_a_wave(const Problem& p, const KernelConfig& c, const DeviceInfo& device) {
  return c.cluster.k > 1 && grid_tiles(p, c) > max_clusters(c, device);
}

/// Returns whether the tile's width is slow for MN-major B, which is loaded in blocks of 64 columns. With
/// other widths half of the tiles start inside an L2 line, and all load columns of their neighbours. Where no
/// CTA shares B, 51 of 53 problems lost 2 to 51 % by it and two gained 1 % (docs/findings/mn-major.md). WGMMA
/// itself is slow at widths between multiples of 32 (128 x 144 took 1.3 times as long as 128 x 160,
/// docs/findings/splits.md).
bool is_slow_width(const Problem& p, const KernelConfig& c) {
  const int unit = c.cluster.m > 1 || p.n <= c.tile.n ? kMnBlock / 2 : kMnBlock;
  return c.b_major == Major::mn && c.tile.n % unit != 0;
}

/// Returns how to store D. A gated tile stores only half of its columns, which may be too few for a TMA store
/// although the whole tile is wide enough. Such tiles are kept, because their loads are good, and store
/// directly.
StorePath store_of(const KernelConfig& c) {
  const bool fits = !c.epilogue.gated || own_outputs(c) * bytes_of(c.d) % kTmaUnit == 0;
  return fits ? c.store : StorePath::direct;
}

/// Returns the config with this tile and cluster, which may break a rule. `store`: what the caller chose.
KernelConfig config_with(const Problem& p, const BaseConfig& base, const ClusterShape& cluster,
                         const std::optional<StorePath>& store) {
  const StorePath possible = why_not_tma_store(p) == nullptr ? StorePath::tma : StorePath::direct;
  const KernelConfig config = config_for(p, base, cluster, store.value_or(possible));
  if (store || store_of(config) == config.store) return config;
  return config_for(p, base, cluster, StorePath::direct);
}

void search(const Problem& p, const std::vector<BaseConfig>& bases, const DeviceInfo& device,
            const PlanOverrides& o, Search& result) {
  for (const BaseConfig& base : bases)
    for (const ClusterShape& cluster : clusters_of(o)) {
      KernelConfig config = config_with(p, base, cluster, o.store);
      if (o.stages) config.stages = *o.stages;
      if (const char* rule = validate(config); rule != nullptr) {
        result.refuse(config, rule);
      } else if ((!o.cluster && (splits_more_than_a_wave(expected(p), config, device) ||
                                 is_slow_cluster_of_groups(p, config) || !may_win(p, config, false))) ||
                 (!o.tile_n && (is_slow_width(p, config) || is_slow_width_of_groups(p, config)))) {
        continue;
      } else if (too_many_tiles(p, config)) {
        result.too_many_tiles = true;
      } else {
        result.configs.push_back(config);
      }
    }
}

Error bad_override(const std::string& message) {
  return Error{ErrorCode::invalid_config, message};
}

/// Returns whether the overrides leave tiles, clusters, splits and raster to the planner.
bool leaves_kernel_open(const PlanOverrides& o) {
  return o == PlanOverrides{.workspace_limit = o.workspace_limit,
                            .ignore_records = o.ignore_records,
                            .overlap = o.overlap};
}

/// Returns `p` and, where it may be faster, also the product with A and B exchanged. If the caller overrides
/// tile or raster, only `p`: the overrides refer to its m and n.
std::vector<Problem> products_of(const Problem& p, const PlanOverrides& o) {
  if (is_conv(p.conv) || reads_table(p) || is_block_scaled(p.epilogue)) return {p};
  if (o.swapped) return {*o.swapped ? transposed(p) : p};
  if (p.m > kWaveRows && leaves_kernel_open(o)) return {p, transposed(p)};
  return {p};
}

/// Returns an error for overrides that no configuration can follow.
Result<void> check_overrides(const Problem& p, const PlanOverrides& o) {
  SLUICE_TRY(sluice::check_overrides(o));  // overrides from a record were not checked before
  if (decodes(o.schedule.value_or(Schedule::cooperative)))
    return bad_override(std::string("schedule = ") + name_of(*o.schedule) +
                        " is for packed weights, and B is not packed: leave it out");
  if (o.w_stages || o.k_groups || o.ctas)
    return bad_override(
        "w_stages, k_groups and ctas are for packed weights, and B is not packed: leave them out");
  if (const char* reason = why_not_tma_store(p); o.store == StorePath::tma && reason != nullptr)
    return bad_override(std::string("store = tma: ") + reason + "; store direct");
  if (o.swapped.value_or(false) && reads_table(p))
    return bad_override("swapped = true: rows of groups are rows of tiles; leave swapped out");
  if (o.swapped.value_or(false) && is_conv(p.conv))
    return bad_override("swapped = true: a convolution's operands are not swapped; leave swapped out");
  if (o.swapped.value_or(false) && is_block_scaled(p.epilogue))
    return bad_override("swapped = true: operands with block scales are not swapped; leave swapped out");
  if (const char* reason = why_not_tma_store(p); o.swapped.value_or(false) && reason != nullptr)
    return bad_override(std::string("swapped = true: ") + reason + "; leave swapped out");
  if (o.splits.value_or(1) > 1 && o.clusters)
    return bad_override("splits sets the clusters itself: set one of the two");
  if (o.combine == Combine::add && !adds_in_any_order(p))
    return bad_override(
        "combine = add puts parts into D in any order: it needs update = add and deterministic = false");
  if (o.combine == Combine::none && o.splits.value_or(1) > 1)
    return bad_override("combine = none cannot split k: set last_arriver, separate or add");
  return {};
}

/// Returns the rule that a split breaks, given its configuration; empty: none.
std::string split_problem(const Problem& p, const KernelConfig& c, const DeviceInfo& device,
                          const WorkSplit& split) {
  if (split.clusters < 1 || split.clusters > max_clusters(c, device))
    return "clusters = " + std::to_string(split.clusters) + " must be in 1.." +
           std::to_string(max_clusters(c, device)) + ", what can be resident at once";
  const i64 most = std::max({grid_rows(p, c), grid_columns(p, c), i64{1}});
  if (split.group > kMaxInt / most)
    return "raster_group = " + std::to_string(split.group) + " times " + std::to_string(most) +
           " cluster tiles must stay below 2^31";
  return {};
}

}  // namespace

WorkSplit choose_split(const Problem& p, const KernelConfig& c, const DeviceInfo& device,
                       const PlanOverrides& o) {
  const Problem likely = expected(p);
  const i64 rows = grid_rows(likely, c), columns = grid_columns(p, c);
  const i64 tiles = has_groups(p)         ? most_group_tiles(p, c.tile.m) * columns
                    : rows * columns == 0 ? 0
                                          : rows * columns * p.batch;
  WorkSplit split;
  split.clusters =
      o.clusters.value_or(static_cast<int>(std::clamp<i64>(tiles, 1, std::max(max_clusters(c, device), 1))));

  if (has_groups(p) && !o.raster && !o.raster_group) {
    split.raster = Raster::along_m, split.group = kBandOfGroups;
    return split;
  }
  bool first = true;
  Traffic least;
  WorkSplit best = split;
  for (const Raster raster : {Raster::along_m, Raster::along_n}) {
    if (raster != o.raster.value_or(raster)) continue;
    split.raster = raster;
    const i64 extent = raster == Raster::along_m ? rows : columns;
    for (const int group : o.raster_group ? std::span<const int>(&*o.raster_group, 1)
                                          : std::span<const int>(tried::kRasterGroups)) {
      if (!o.raster_group && group > 1 && group > extent) break;
      split.group = group;
      const Traffic traffic = traffic_of(likely, c, split, device);
      const auto compared = [](const Traffic& t) {
        return std::tuple(t.hbm_bytes, t.wave_bytes, t.repeated_bytes);
      };
      if (first || compared(traffic) < compared(least)) best = split, least = traffic;
      first = false;
    }
  }
  return best;
}

namespace {

Plan planned(const Problem& p, const KernelConfig& config, const WorkSplit& split, const DeviceInfo& device) {
  Plan plan{.problem = p, .config = config, .split = split};
  plan.smem_bytes = smem_bytes(config);
  plan.workspace_bytes = workspace_bytes(config, split);
  const bool empty = p.m == 0 || p.n == 0 || p.batch == 0;
  if (!empty) plan.estimate = estimate(expected(product_of(p, config)), config, split, device);
  return plan;
}

bool is_faster(const Plan& x, const Plan& y) {
  return x.estimate.total_us < y.estimate.total_us;
}

std::vector<Plan> best_splits(const Problem& p, KernelConfig c, const DeviceInfo& device,
                              const WorkSplit& whole, const PlanOverrides& o) {
  std::vector<Plan> plans;
  const Problem product = product_of(p, c);
  if (reads_table(p)) return plans;  // no split: the number of tiles is not known
  for (const Combine combine : o.combine ? std::vector{*o.combine} : combines_of_parts(p)) {
    c.combine = combine;
    for (const WorkSplit& split : splits_along_k(product, c, device, whole, o))
      plans.push_back(planned(p, c, split, device));
  }
  std::stable_sort(plans.begin(), plans.end(), is_faster);
  const auto most = static_cast<std::size_t>(kPlanner.search.splits_of_config);
  if (plans.size() > most) plans.resize(most);
  return plans;
}

/// Sorts plans, best estimate first. Then numbers clusters by GPC where that gains, and replaces the estimate
/// with that of the raster that will run. The model does not know what the CTAs of a GPC share in L2, which
/// is the gain of that numbering, so it must not decide the order.
std::vector<Plan> ranked(std::vector<Plan> plans, const DeviceInfo& device, const PlanOverrides& o) {
  std::stable_sort(plans.begin(), plans.end(), is_faster);
  for (Plan& plan : plans) {
    if (is_plain(plan.config.schedule) || sums_groups(plan.problem)) continue;
    plan.split = numbered(plan, o);
    if (plan.split.numbering == Numbering::gpc)
      plan.estimate =
          estimate(expected(product_of(plan.problem, plan.config)), plan.config, plan.split, device);
  }
  return plans;
}

std::string why_no_plain_plan(const Problem& p, const PlanOverrides& o) {
  const std::string asked = std::string("schedule = ") + name_of(o.schedule.value_or(Schedule::plain)) + ": ";
  if (const char* rule = why_not_plain(p, o); rule != nullptr) return asked + rule;
  if (o.schedule == Schedule::plain_wgmma && is_promoted(p))
    return asked + "it does not promote: take plain, whose sums are all in fp32, or accumulate = fast";
  return asked +
         "no configuration has this tile, cluster and warps within 227 KB of shared memory: tiles are 8, 16, "
         "32 or 64 x 16, 32, 64 or 128 (plain_wgmma: 8 or a multiple of 16 up to 128 x a multiple of 16 up "
         "to "
         "256, or of 8 above 32 without a gate), warps 4, 8 or 16; give fewer overrides";
}

/// Returns whether search() would accept this configuration for this problem.
bool suits(const Problem& p, const KernelConfig& c, const DeviceInfo& device) {
  const char* const no_store = why_not_tma_store(p);
  if (no_store != nullptr && (c.store == StorePath::tma || is_swapped(c))) return false;
  if (is_swapped(c) && p.m <= kWaveRows) return false;
  const Problem product = product_of(p, c);
  if (c.load_a != load_of(product.a, product.m, product)) return false;
  if (c.load_b != load_of(product.b, product.n, product)) return false;
  return !splits_more_than_a_wave(expected(product), c, device) && !is_slow_cluster_of_groups(product, c) &&
         !is_slow_width_of_groups(product, c) && may_win(product, c, false) && !is_slow_width(product, c) &&
         !too_many_tiles(product, c);
}

/// Returns why splits_along_k() did not return the split that the overrides ask for.
std::string why_no_split(const Problem& p, KernelConfig c, WorkSplit split, const PlanOverrides& o) {
  c.combine = o.combine.value_or(combines_of_parts(p).front());
  split = split_into(p, c, split, *o.splits);
  if (const char* rule = validate(c); rule != nullptr) return rule;
  if (std::string rule = slices_problem(p, c, split); !rule.empty()) return rule;
  return std::to_string(workspace_bytes(c, split)) + " bytes of workspace are more than the limit of " +
         std::to_string(o.workspace_limit.value_or(kWorkspaceLimit));
}

}  // namespace

std::optional<Plan> dense_plan_of(const TunedChoice& choice, const Problem& p, const DeviceInfo& device) {
  if (!is_listed(choice)) return std::nullopt;
  if (is_plain(choice.schedule)) return plain_plan_of(choice, p, device);
  if (choice.swapped && (is_conv(p.conv) || why_not_tma_store(p) != nullptr)) return std::nullopt;
  if (choice.combine == Combine::add && !adds_in_any_order(p)) return std::nullopt;
  const Problem product = choice.swapped ? transposed(p) : p;
  KernelConfig config =
      config_with(product, {choice.schedule, choice.tile_m, choice.tile_n}, choice.cluster, {});
  if (validate(config) != nullptr || too_many_tiles(product, config) || choice.raster_group < 1)
    return std::nullopt;
  if (reorders_sums_of_groups(product, config)) return std::nullopt;
  PlanOverrides o{.raster = choice.raster, .raster_group = choice.raster_group};
  if (choice.slices == 1) o.clusters = choice.clusters;
  WorkSplit split = choose_split(product, config, device, o);
  if (!split_problem(product, config, device, split).empty()) return std::nullopt;
  if (choice.slices != 1) {
    config.combine = choice.combine;
    const std::vector<WorkSplit> splits =
        splits_along_k(product, config, device, split, {.splits = choice.slices});
    if (splits.empty()) return std::nullopt;
    split = splits.front();
  }
  split.numbering = choice.numbering;
  if (!numbering_problem(split).empty()) return std::nullopt;
  return planned(p, config, split, device);
}

std::optional<Plan> plan_with(const Problem& p, const KernelConfig& config, const DeviceInfo& device) {
  if (is_plain(config.schedule)) return plain_plan_with(p, device, config);
  if (!suits(p, config, device)) return std::nullopt;
  const Problem product = product_of(p, config);
  const PlanOverrides o{.combine = config.combine};
  const WorkSplit whole = choose_split(product, config, device, o);
  if (!split_problem(product, config, device, whole).empty()) return std::nullopt;
  std::vector<Plan> plans{planned(p, config, whole, device)};
  if (config.combine != Combine::none)
    for (Plan& split : best_splits(p, config, device, whole, o)) plans.push_back(std::move(split));
  return *std::min_element(plans.begin(), plans.end(), is_faster);
}

Result<std::vector<Plan>> rank_candidates(const Problem& p, const DeviceInfo& device,
                                          const PlanOverrides& o) {
  SLUICE_TRY(check_overrides(p, o));
  std::vector<Plan> plans = plain_plans(p, device, o);
  if ((o.schedule && is_plain(*o.schedule)) || o.warps) {
    if (plans.empty()) return bad_override(why_no_plain_plan(p, o));
    return ranked(std::move(plans), device, o);
  }
  Search found;
  const std::vector<Problem> products = products_of(p, o);
  for (const Problem& product : products) search(product, listed_bases(product, device, o), device, o, found);
  if (!found.found() && !plans.empty()) return ranked(std::move(plans), device, o);
  if (!found.found())
    for (const Problem& product : products) search(product, unlisted_bases(o), device, o, found);
  if (!found.found()) return found.refusal(o);
  if (found.configs.empty())
    return Error{ErrorCode::invalid_size, "D of " + std::to_string(p.batch) + " x " + std::to_string(p.m) +
                                              " x " + std::to_string(p.n) +
                                              " has more than 2^30 tiles: split the problem"};

  Search refused;
  for (const KernelConfig& config : found.configs) {
    const Problem product = product_of(p, config);
    const WorkSplit whole = choose_split(product, config, device, o);
    const bool splits_only = o.splits.value_or(1) > 1;
    std::string wrong = split_problem(product, config, device, whole);
    if (wrong.empty() && !splits_only) plans.push_back(planned(p, config, whole, device));
    std::vector<Plan> split = best_splits(p, config, device, whole, o);
    if (wrong.empty() && splits_only && split.empty()) wrong = why_no_split(product, config, whole, o);
    if (!wrong.empty())
      refused.refuse(config, wrong);
    else
      plans.insert(plans.end(), split.begin(), split.end());
  }
  if (plans.empty()) return refused.refusal(o);
  return ranked(std::move(plans), device, o);
}

}  // namespace sluice
