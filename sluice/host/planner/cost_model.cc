// SPDX-License-Identifier: Apache-2.0
// See cost_model.h. Reads from the inside out: one k-tile, one tile of a CTA, all waves, the kernel.
#include <sluice/host/planner/cost_model.h>

#include <algorithm>
#include <cmath>

#include <sluice/host/planner/traffic.h>

namespace sluice {
namespace {

constexpr const CostConstants& kCost = kCostConstants;
constexpr int kStepsPerKTile = 4;  // WGMMAs of 32 bytes of k in a 128-byte row

/// The time of things that overlap, each of which would take so long alone.
double joined(double sharpness, std::initializer_list<double> times) {
  const double longest = std::max(times);
  if (longest <= 0) return 0;
  double sum = 0;
  for (const double time : times) sum += std::pow(time / longest, sharpness);
  return longest * std::pow(sum, 1 / sharpness);
}

double clocks_per_us(const KernelConfig& c, const DeviceInfo& device) {
  const double rate = is_fp8(c.a) ? device.fp8_flops_per_us : device.fp16_flops_per_us;
  const double per_clock = is_fp8(c.a) ? kCost.flops_per_clock_fp8 : kCost.flops_per_clock_16bit;
  return rate / device.sm_count / per_clock;
}

/// Clocks of the tensor cores for one k-tile of a CTA: a 64 x n step takes n / 2.
double tensor_clocks(const KernelConfig& c) {
  return c.tile.m / kWaveRows * kStepsPerKTile * (c.tile.n / 2.0) / kCost.mainloop_efficiency;
}

double smem_clocks(const KernelConfig& c) {
  const double reads = c.tile.m / kWaveRows * kStepsPerKTile *
                       (kCost.smem_read_clocks_a + kCost.smem_read_clocks_per_column * c.tile.n);
  return reads + kCost.smem_write_weight * (c.tile.m + c.tile.n);
}

/// Clocks of the math groups for one k-tile of a CTA, without waiting for loads.
double math_clocks(const KernelConfig& c) {
  const bool one_chain = c.schedule == Schedule::ping_pong && waves(c) == 1;
  const double product = joined(kCost.sharpness_in_tile, {tensor_clocks(c), smem_clocks(c)}) +
                         (one_chain ? kStepsPerKTile * kCost.chain_clocks_per_step : 0);
  if (!c.promotes) return product;
  const double promotion = sum_registers(c) * kCost.promote_clocks_per_register + kCost.promote_drain_clocks;
  if (c.schedule == Schedule::ping_pong) return product + promotion;  // the other group waits for its turn
  return joined(kCost.sharpness_in_tile, {product, product / kMathGroups + promotion});
}

/// Clocks of one group to store its part of a tile, with the other group doing something else.
double epilogue_clocks(const KernelConfig& c) {
  const double elements = waves(c) * c.tile.n / 2.0;  // a thread
  const Epilogue& e = c.epilogue;
  double each = kCost.epilogue_clocks_per_element;
  if (e.scale_a == ScaleMode::vector) each += kCost.scale_clocks_per_element;
  if (e.scale_b == ScaleMode::vector) each += kCost.scale_clocks_per_element;
  if (e.bias != Bias::none) each += kCost.bias_clocks_per_element;
  if (e.residual) each += kCost.residual_clocks_per_element;
  if (e.activation == Activation::gelu) each += kCost.gelu_clocks_per_element;
  if (e.activation == Activation::silu) each += kCost.silu_clocks_per_element;
  double weight = 1;
  if (c.d == DType::fp32) weight *= kCost.fp32_output_weight;
  if (c.store == StorePath::direct) weight *= kCost.direct_store_weight;
  const double sharing = c.schedule == Schedule::cooperative ? kMathGroups : 1;
  return kCost.epilogue_fixed_clocks + elements * each * weight * sharing;
}

/// Clocks from the start of one tile of a CTA to the start of its next, with `active` CTAs at work.
double tile_clocks(const Problem& p, const KernelConfig& c, double active, const DeviceInfo& device) {
  const double k_tiles = static_cast<double>(ceil_div(p.k, i64{c.tile.k}));
  const double clock = clocks_per_us(c, device);
  const double shared_rate = device.l2_bytes_per_us * kCost.l2_gain_of_tma / clock / active;
  const double l2_rate = std::min(shared_rate, kCost.l2_bytes_per_clock_per_sm);
  // Bandwidth, or latency: the ring is refilled once in the time that a byte takes to come.
  const double load = std::max(k_tiles * l2_bytes_per_k_tile(p, c) / l2_rate,
                               k_tiles / c.stages * kCost.load_latency_us * clock);
  const double math = k_tiles * math_clocks(c), epilogue = epilogue_clocks(c);
  if (c.schedule == Schedule::ping_pong)
    return joined(kCost.sharpness_in_tile, {math + kCost.turn_clocks, load, (math + epilogue) / kMathGroups});
  return joined(kCost.sharpness_in_tile, {math + epilogue + kCost.ramp_clocks, load});
}

}  // namespace

int max_clusters(const KernelConfig& c, const DeviceInfo& device) {
  switch (cluster_size(c)) {
    case 1: return device.sm_count;
    case 2: return device.max_clusters_of_2;
    case 4: return device.max_clusters_of_4;
    default: return device.max_clusters_of_4 / 2;
  }
}

Estimate estimate(const Problem& p, const KernelConfig& c, const WorkSplit& split, const DeviceInfo& device) {
  const double rows = static_cast<double>(ceil_div(p.m, i64{c.tile.m} * c.cluster.m));
  const double columns = static_cast<double>(ceil_div(p.n, i64{c.tile.n} * c.cluster.n));
  const double tiles = rows * columns * static_cast<double>(p.batch);
  const double clock = clocks_per_us(c, device);
  const double full_waves = std::floor(tiles / split.clusters), rest = tiles - full_waves * split.clusters;

  double sm_clocks = full_waves * tile_clocks(p, c, split.clusters * cluster_size(c), device);
  if (rest > 0) sm_clocks += tile_clocks(p, c, rest * cluster_size(c), device);

  const Traffic traffic = traffic_of(p, c, split, device);
  const double k_tiles = static_cast<double>(ceil_div(p.k, i64{c.tile.k}));
  Estimate e;
  e.waves = static_cast<int>(std::ceil(tiles / split.clusters));
  e.tensor_us = e.waves * k_tiles * tensor_clocks(c) / clock;
  e.l2_us = traffic.l2_bytes / (device.l2_bytes_per_us * kCost.l2_gain_of_tma);
  e.hbm_us = traffic.hbm_bytes / device.hbm_bytes_per_us;
  e.overhead_us = kCost.launch_us + kCost.first_bytes_us + kCost.last_store_us;
  if (cluster_size(c) > 1) e.overhead_us += kCost.cluster_us;
  // Ping-pong's last epilogue has nothing to hide behind; cooperative's are all counted with their tiles.
  if (c.schedule == Schedule::ping_pong) e.overhead_us += epilogue_clocks(c) / clock;
  e.total_us = e.overhead_us + joined(kCost.sharpness_in_kernel, {sm_clocks / clock, e.hbm_us});
  return e;
}

}  // namespace sluice
