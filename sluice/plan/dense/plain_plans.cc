// SPDX-License-Identifier: Apache-2.0
// Implements plain_plans.h. The model adds up a launch's fixed time, the time of loads, the time of
// instructions, and the overhead of clusters. Loads run at the rate of HBM, or of the SMs in use. The
// constants were fitted to 1,000 timed candidates of 64 products (docs/findings/plain-loads.md). The model
// cannot order plans of nearly equal time; the tuner does.
#include <sluice/plan/dense/plain_plans.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include <sluice/kernels/registry.h>
#include <sluice/plan/constants.h>
#include <sluice/plan/dense/cluster_grid.h>
#include <sluice/plan/device_rates.h>
#include <sluice/plan/limits.h>
#include <sluice/spec/validate.h>

namespace sluice {
namespace {

/// Most CTAs, and so most tiles: they are counted in int, and gemm::sealed() refuses more.
constexpr double kMostCtas = kMaxInt;

constexpr i64 kMostFittedRows = 64;

/// Most rows of A for which plain is tried with block scales. From 16 rows on the schedules with roles are as
/// fast with block scales as without (docs/findings/experts.md).
constexpr i64 kMostBlockScaledRows = 8;

/// Warps per CTA for tiles whose width is fitted so that each SM gets `ctas` CTAs.
struct FittedBase {
  int ctas, warps;
};
constexpr FittedBase kFittedSpace[] = {{1, 8}, {1, 16}, {2, 8}, {3, 4}};

/// Returns the tile width with which tiles just fill the SMs, `ctas` CTAs per SM. Returns 0 if no tile can be
/// so wide or so narrow, and for more than 64 rows of A, which were not measured. Example: 5120 columns in
/// tiles of 32 are 160 CTAs, so that 28 SMs have two; in tiles of 40 they are 128.
int fitted_width(const Problem& p, const DeviceInfo& device, int parts, int ctas) {
  if (p.m > kMostFittedRows) return 0;
  const i64 tiles = std::max<i64>(i64{clusters_at_once(parts, device)} * ctas / std::max<i64>(p.batch, 1), 1);
  const i64 unit = plain_width_unit(kWaveRows, p.epilogue.gated);
  const i64 width = round_up(ceil_div(p.n, tiles), unit);
  return width > kWaveRows / 2 && width <= 256 ? static_cast<int>(width) : 0;
}

/// Returns the registry's tiles with every split of k, fitted tiles, and tiles of the width that the
/// overrides ask for. Their height is that of A, or the overrides'.
std::vector<KernelConfig> listed_configs(const Problem& p, const DeviceInfo& device, const PlanOverrides& o) {
  std::vector<KernelConfig> configs;
  const Problem each = expected(p);
  for (const int parts : tried::kPlainParts) {
    const auto add = [&](Schedule schedule, int tile_n, int warps) -> KernelConfig& {
      const int rows = o.tile_m.value_or(plain_rows(schedule, each.m));
      configs.push_back(config_for(p, {schedule, rows, tile_n}, {1, 1, parts}, StorePath::direct));
      configs.back().warps = warps;
      return configs.back();
    };
    for (const PlainBase& base : kPlainSpace)
      add(Schedule::plain, base.tile_n, base.warps).stages = base.stages;
    for (const PlainWgmmaBase& base : kPlainWgmmaSpace) {
      KernelConfig& c = add(Schedule::plain_wgmma, base.tile_n, base.warps);
      c.stages = plain_stages(c, base.ctas);
    }
    for (const FittedBase& base : kFittedSpace)
      if (const int width = o.tile_n.value_or(fitted_width(each, device, parts, base.ctas));
          is_plain_width(width, p.epilogue.gated)) {
        KernelConfig& c = add(Schedule::plain_wgmma, width, base.warps);
        c.stages = plain_stages(c, base.ctas);
      }
  }
  return configs;
}

/// Returns how many CTAs run at once; clusters leave some SMs idle.
double resident_ctas(const KernelConfig& c, const DeviceInfo& device) {
  return static_cast<double>(clusters_at_once(c.cluster.k, device)) * c.cluster.k * plain_ctas(c);
}

/// Returns the microseconds of an SM's tensor cores, and of the instructions around them, for `tiles_of_sm`
/// tiles.
double math_us(const Problem& p, const DeviceInfo& device, const KernelConfig& c, double tiles_of_sm,
               const Costs& costs) {
  const double slowness = tensor_slowness(device, c.a);
  const double k_tiles = static_cast<double>(ceil_div(p.k, i64{c.tile.k}));
  if (c.schedule == Schedule::plain_wgmma) {
    const double waves = plain_waves(c), columns = stage_columns(c);
    const double busy = 4 * waves * slowness * columns / 2.0;
    const double alone = costs.meet_clocks + busy + costs.group_load_clocks * plain_stage_bytes(c) / 2048.0;
    const double together =
        teams(c) * std::min<double>(plain_ctas(c), std::max(1.0, tiles_of_sm * c.cluster.k));
    return tiles_of_sm * k_tiles / stage_k_tiles(c) * std::max(busy, alone / together) /
           device.rates.light_mhz;
  }
  const double blocks = c.tile.n / 16.0, steps = is_fp8(c.a) ? 8 : 4;
  const double clocks = blocks * steps * (c.tile.m / 8.0) * costs.product_clocks;
  return tiles_of_sm * k_tiles * clocks / 4 / device.rates.light_mhz;
}

/// Returns whether the CTAs' number is possible; with `whole_wave`, also whether all of them run at once. A
/// cluster waits long for room in a second wave. With more than 64 rows of A two waves were slower than the
/// schedules with roles (docs/findings/plain-loads.md).
bool finds_room(const Problem& p, const KernelConfig& c, const DeviceInfo& device, bool whole_wave) {
  const double ctas = grid_tiles(expected(p), c) * c.cluster.k;
  return ctas <= kMostCtas && !(whole_wave && ctas > resident_ctas(c, device));
}

}  // namespace

const char* why_not_plain(const Problem& p, const PlanOverrides& o) {
  if (is_conv(p.conv)) return "plain schedules do not gather";
  if (reads_table(p) && !by_slots(p)) return "plain has groups by slots only";
  if (o.schedule && !is_plain(*o.schedule)) return "another schedule is asked for";
  if (o.swapped.value_or(false)) return "plain schedules do not swap operands";
  if (p.a.major != Major::k || p.b.major != Major::k) return "plain needs K-major operands";
  const Problem each = expected(p);  // with slots, a product of one row for each
  if (is_block_scaled(p.epilogue) && each.m > kMostBlockScaledRows && !o.schedule)
    return "more than 8 rows of A with block scales: plain is for fewer, unless schedule = plain";
  if (is_block_scaled(p.epilogue) && o.schedule == Schedule::plain_wgmma)
    return "plain_wgmma has no block scales";
  if (scales_each_column(p.epilogue)) return "plain has no vector128 scales";
  if (by_slots(p) && o.schedule == Schedule::plain_wgmma) return "plain_wgmma has no groups";
  if (writes_scales(p.epilogue)) return "plain computes no scales of D";
  if (p.epilogue.row_factors) return "plain has no factors of rows";
  if (loads_strided(with_strides(p)))
    return "plain copies 16 bytes at a time, and A or B is not aligned to them";
  if (o.store == StorePath::tma) return "plain stores direct";
  if (o.cluster && (o.cluster->m != 1 || o.cluster->n != 1)) return "plain has clusters along k only";
  if (o.clusters || o.splits.value_or(1) > 1 || o.combine.value_or(Combine::none) != Combine::none)
    return "plain splits k inside a cluster only, and launches one cluster per tile";
  if (o.raster || o.raster_group) return "plain has no order of tiles to choose";
  if (each.m > kMaxPlainRows && !o.schedule)
    return "more than 128 rows of A: plain is for few, unless schedule = plain";
  const i64 rows = o.tile_m.value_or(plain_rows(o.schedule.value_or(Schedule::plain_wgmma), each.m));
  if (rows > 0 && ceil_div(each.m, rows) > kMaxGridY / std::max<i64>(each.batch, 1))
    return "rows of A times batch make more than 65535 tiles: split the problem";
  return nullptr;
}

Estimate plain_estimate(const Problem& given, const DeviceInfo& device, const KernelConfig& c,
                        const Costs& costs) {
  const Problem p = expected(given);
  const double bytes = bytes_of(c.a);
  const double tiles = grid_tiles(p, c), ctas = tiles * c.cluster.k;
  const double weights =
      static_cast<double>(p.n) * static_cast<double>(p.k) * bytes * static_cast<double>(p.batch);
  const double rows =
      static_cast<double>(grid_columns(p, c)) * c.tile.n / static_cast<double>(std::max<i64>(p.n, 1));
  const double tokens = static_cast<double>(grid_columns(p, c)) * static_cast<double>(p.m) *
                        static_cast<double>(p.k) * bytes * static_cast<double>(p.batch);
  const double resident = resident_ctas(c, device);
  // The CTAs of a wave load weights at the rate of HBM, or at the rate that their bytes in flight allow.
  const auto loads_us = [&](double running) {
    const double sms = std::min<double>(running, device.sm_count);
    const double in_flight = static_cast<double>(plain_early_row_bytes(c)) * c.tile.n *
                             std::min<double>(plain_ctas(c), std::max(1.0, running / device.sm_count));
    const double sm_rate =
        std::min(device.rates.sm_bytes_per_us, in_flight / loaded_latency_us(device, costs));
    return weights * rows * running / ctas / std::min(device.rates.hbm_bytes_per_us, sms * sm_rate);
  };
  const auto products_us = [&](double running) {
    return math_us(p, device, c, running / c.cluster.k / std::min<double>(running, device.sm_count), costs);
  };
  const double whole_waves = std::floor(ctas / resident), last = ctas - whole_waves * resident;
  const double l2_us = tokens / device.rates.l2_bytes_per_us;

  Estimate e;
  e.waves = static_cast<int>(std::min(1e9, std::ceil(ctas / resident)));
  const auto add_waves = [&](double waves, double running) {
    if (waves < 1 || running < 1) return;
    const double loads = loads_us(running), products = products_us(running);
    e.hbm_us += waves * loads;
    e.tensor_us += waves * products;
    e.total_us += waves * (std::max(loads, products) + costs.plain_overlap * std::min(loads, products));
  };
  add_waves(whole_waves, resident);
  add_waves(1, last);
  e.l2_us = l2_us;
  e.overhead_us = device.rates.launch_us + costs.begin_us + costs.plain_begin_us +
                  costs.cluster_us * std::log2(c.cluster.k) +
                  costs.warp_sums_us * warp_sums_bytes(plain_tile(c)) / 1024.0 +
                  costs.wave_us * (e.waves - 1) / plain_ctas(c);
  e.total_us += e.overhead_us + costs.token_share * l2_us;
  return e;
}

Plan plain_plan(const Problem& p, const DeviceInfo& device, const KernelConfig& c) {
  Plan plan{.problem = p, .config = c, .split = {}};
  const double tiles = grid_tiles(expected(p), c);
  plan.split.clusters = static_cast<int>(std::clamp(tiles, 1.0, kMostCtas));
  plan.smem_bytes = smem_bytes(c);
  if (tiles > 0) plan.estimate = plain_estimate(p, device, c);
  return plan;
}

std::optional<Plan> plain_plan_with(const Problem& p, const DeviceInfo& device, const KernelConfig& c) {
  // plain_plans() has these rules too
  if (why_not_plain(p, {}) != nullptr || c.tile.m < expected(p).m) return std::nullopt;
  const bool whole_wave = c.cluster.k > 1 || c.tile.m > kPlanner.search.two_wave_rows;
  if (!finds_room(p, c, device, whole_wave)) return std::nullopt;
  return plain_plan(p, device, c);
}

std::optional<Plan> plain_plan_of(const TunedChoice& choice, const Problem& p, const DeviceInfo& device) {
  if (std::find(std::begin(tried::kPlainParts), std::end(tried::kPlainParts), choice.cluster.k) ==
      std::end(tried::kPlainParts))
    return std::nullopt;
  KernelConfig c =
      config_for(p, {choice.schedule, choice.tile_m, choice.tile_n}, choice.cluster, StorePath::direct);
  c.warps = choice.warps;
  c.stages = choice.stages;
  const PlanOverrides asked{.schedule = c.schedule, .tile_m = c.tile.m, .cluster = c.cluster};
  if (why_not_plain(p, asked) != nullptr || validate(c) != nullptr || !finds_room(p, c, device, false))
    return std::nullopt;
  return plain_plan(p, device, c);
}

std::vector<Plan> plain_plans(const Problem& p, const DeviceInfo& device, const PlanOverrides& o) {
  std::vector<Plan> plans;
  // An empty product takes any plan: one of another schedule, unless this one is asked for, or no other is
  // possible.
  const bool nothing = p.m == 0 || p.n == 0 || p.batch == 0;
  if (why_not_plain(p, o) != nullptr || (nothing && !by_slots(p) && !o.schedule && !o.warps)) return plans;
  const bool asked = o.schedule || o.warps;
  for (KernelConfig c : listed_configs(p, device, o)) {
    // A second row of tiles would read all weights again.
    if (c.tile.m < expected(p).m && !asked && !o.tile_m) continue;
    if (c.schedule != o.schedule.value_or(c.schedule) || c.tile.n != o.tile_n.value_or(c.tile.n) ||
        c.warps != o.warps.value_or(c.warps) || c.cluster.k != (o.cluster ? o.cluster->k : c.cluster.k))
      continue;
    if (o.stages) c.stages = *o.stages;
    const bool whole_wave =
        (c.cluster.k > 1 && !o.cluster) || (c.tile.m > kPlanner.search.two_wave_rows && !asked);
    if (validate(c) != nullptr || !finds_room(p, c, device, whole_wave)) continue;
    Plan plan = plain_plan(p, device, c);
    if (std::none_of(plans.begin(), plans.end(), [&](const Plan& x) { return x.config == plan.config; }))
      plans.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace sluice
