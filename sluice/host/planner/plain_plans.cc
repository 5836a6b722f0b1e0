// SPDX-License-Identifier: Apache-2.0
// See plain_plans.h. The model knows four things: the fixed time of a launch, bytes over the rate of HBM or
// of the SMs that are at work, instructions of a warp, and what a cluster costs. Its constants are from
// docs/findings/plain-loads.md; the order of near ones is for the tuner.
#include <sluice/host/planner/plain_plans.h>

#include <algorithm>

#include <sluice/host/driver/launch.h>
#include <sluice/host/planner/cluster_grid.h>
#include <sluice/kernels/registry.h>
#include <sluice/spec/validate.h>

namespace sluice {
namespace {

struct PlainModel {
  double launch_us = 1.95;        // of a kernel that reads nothing, and its first and last bytes
  double sm_bytes_per_us = 68e3;  // that one SM takes in
  double latency_us = 1.15;       // of a load under load: bytes in flight over it is a rate
  double tokens_share = 0.35;     // of the time of reading tokens again, which L2 overlaps with HBM
  double product_clocks = 7.0;    // of one mma.sync, an SM sub-partition
  double fp8_expand_clocks = 18;  // for each 16 x 32 of B: to fp16
  double load_clocks = 2.2;       // for each row of 128 bytes: copies, addresses
  double clocks_per_us = 1770;    // with the tensor core in use
  double overlap = 0.35;          // of the instructions' time that is not hidden behind memory
  double cluster_us[4] = {0, 0.4, 0.5, 0.7};  // of 1, 2, 4, 8 CTAs
  double reduce_us = 0.012;                   // for each KB of sums that warps add up
  double tail_us = 0.25;                      // of a wave that is not full, at most
};
constexpr PlainModel kModel;

int tokens_of(i64 m) {
  for (const int tokens : {8, 16, 32})
    if (m <= tokens) return tokens;
  return 64;
}

KernelConfig config_of(const Problem& p, const PlainBase& base, int tokens, int parts) {
  KernelConfig c = config_for(p, {Schedule::plain, tokens, base.tile_n}, {1, 1, parts}, StorePath::direct);
  c.warps = base.warps;
  c.stages = base.stages;
  return c;
}

}  // namespace

const char* why_not_plain(const Problem& p, const PlanOverrides& o) {
  if (o.schedule && *o.schedule != Schedule::plain) return "another schedule is asked for";
  if (p.a.major != Major::k || p.b.major != Major::k) return "plain needs K-major operands";
  if (is_block_scaled(p.epilogue)) return "plain has no block scales";
  if (o.store == StorePath::tma) return "plain stores direct";
  if (o.cluster && (o.cluster->m != 1 || o.cluster->n != 1)) return "plain has clusters along k only";
  if (o.clusters || o.streamed.value_or(0) > 0 || o.splits.value_or(1) > 1 ||
      o.combine.value_or(Combine::none) != Combine::none)
    return "plain splits k inside a cluster only, and launches a cluster for each tile";
  if (o.raster || o.raster_group) return "plain has no order of tiles to choose";
  if (p.m > kMaxPlainRows && !o.schedule)
    return "more than 64 rows of A: plain is for few, unless schedule = plain";
  const i64 tokens = o.tile_m.value_or(tokens_of(p.m));
  if (tokens > 0 && ceil_div(p.m, tokens) > kMaxGridY / std::max<i64>(p.batch, 1))
    return "rows of A times batch make more than 65535 tiles: split the problem";
  return nullptr;
}

Estimate plain_estimate(const Problem& p, const DeviceInfo& device, const KernelConfig& c) {
  const double bytes = bytes_of(c.a);
  const double tiles = grid_tiles(p, c), ctas = tiles * c.cluster.k;
  const double weights =
      static_cast<double>(p.n) * static_cast<double>(p.k) * bytes * static_cast<double>(p.batch);
  const double rows =
      static_cast<double>(grid_columns(p, c)) * c.tile.n / static_cast<double>(std::max<i64>(p.n, 1));
  const double tokens = static_cast<double>(grid_columns(p, c)) * static_cast<double>(p.m) *
                        static_cast<double>(p.k) * bytes * static_cast<double>(p.batch);
  const double resident = static_cast<double>(device.sm_count) * plain_ctas(c);
  const double busy = std::min<double>(ctas, device.sm_count);
  const double in_flight = static_cast<double>(c.warps) * (c.stages - 1) * c.tile.n * kPlainRowBytes *
                           std::min<double>(plain_ctas(c), std::max(1.0, ctas / device.sm_count));
  const double sm_rate = std::min(kModel.sm_bytes_per_us, in_flight / kModel.latency_us);
  const double hbm_us = weights * rows / std::min(device.hbm_bytes_per_us, busy * sm_rate);
  const double l2_us = tokens / device.l2_bytes_per_us;

  const double k_tiles = static_cast<double>(ceil_div(p.k, i64{c.tile.k}));
  const double blocks = c.tile.n / 16.0, steps = is_fp8(c.a) ? 8 : 4;
  const double tile_clocks = blocks * steps * (c.tile.m / 8.0) * kModel.product_clocks +
                             (is_fp8(c.a) ? blocks * 4 * kModel.fp8_expand_clocks : 0) +
                             (c.tile.n + c.tile.m) * kModel.load_clocks;
  const double sm_tiles = tiles * k_tiles / busy;
  const double math_us = sm_tiles * tile_clocks / 4 / kModel.clocks_per_us;

  Estimate e;
  e.waves = static_cast<int>(std::min(1e9, (ctas + resident - 1) / resident));
  e.tensor_us = math_us;
  e.l2_us = l2_us;
  e.hbm_us = hbm_us;
  const int parts = c.cluster.k == 1 ? 0 : c.cluster.k == 2 ? 1 : c.cluster.k == 4 ? 2 : 3;
  const double last_wave = ctas / resident - static_cast<double>(static_cast<i64>(ctas / resident));
  e.overhead_us = kModel.launch_us + kModel.cluster_us[parts] +
                  kModel.reduce_us * warp_sums_bytes(plain_tile(c)) / 1024.0 +
                  (ctas > resident && last_wave > 0 ? kModel.tail_us * (1 - last_wave) : 0);
  e.total_us = e.overhead_us + std::max(hbm_us, math_us) +
               kModel.overlap * std::min(hbm_us, math_us) * (math_us > 0.5 * hbm_us ? 1 : 0) +
               kModel.tokens_share * l2_us;
  return e;
}

Plan plain_plan(const Problem& p, const DeviceInfo& device, const KernelConfig& c) {
  Plan plan{.problem = p, .config = c, .split = {}};
  const double tiles = grid_tiles(p, c);
  plan.split.clusters = static_cast<int>(std::clamp(tiles, 1.0, 2147483647.0));
  plan.smem_bytes = smem_bytes(c);
  if (tiles > 0) plan.estimate = plain_estimate(p, device, c);
  return plan;
}

std::vector<Plan> plain_plans(const Problem& p, const DeviceInfo& device, const PlanOverrides& o) {
  std::vector<Plan> plans;
  const bool nothing = p.m == 0 || p.n == 0 || p.batch == 0;  // any plan will do: the others', unless asked
  if (why_not_plain(p, o) != nullptr || (nothing && o.schedule != Schedule::plain && !o.warps)) return plans;
  for (const PlainBase& base : kPlainSpace) {
    if (base.tile_n != o.tile_n.value_or(base.tile_n) || base.warps != o.warps.value_or(base.warps)) continue;
    for (const int parts : {1, 2, 4, 8}) {
      if (parts != (o.cluster ? o.cluster->k : parts)) continue;
      KernelConfig c = config_of(p, base, o.tile_m.value_or(tokens_of(p.m)), parts);
      if (o.stages) c.stages = *o.stages;
      const double ctas = grid_tiles(p, c) * parts;
      const bool crowded =
          parts > 1 && ctas > device.sm_count * static_cast<double>(plain_ctas(c)) && !o.cluster;
      if (validate(c) != nullptr || crowded || ctas > 2e9) continue;
      Plan plan = plain_plan(p, device, c);
      if (std::none_of(plans.begin(), plans.end(), [&](const Plan& x) { return x.config == plan.config; }))
        plans.push_back(std::move(plan));
    }
  }
  return plans;
}

}  // namespace sluice
