// SPDX-License-Identifier: Apache-2.0
// Implements packed_cost_model.h. Values are bytes, microseconds or clocks, as their names say.
#include <sluice/plan/packed/packed_cost_model.h>

#include <algorithm>
#include <cmath>

#include <sluice/plan/constants.h>
#include <sluice/plan/costs.h>
#include <sluice/plan/dense/cluster_grid.h>
#include <sluice/plan/device_rates.h>

namespace sluice::packed {
namespace {

/// Warp schedulers of an SM; each issues one instruction per clock.
constexpr double kSchedulers = 4;

/// Returns the microseconds until the last of `waves` waves has begun. With clusters a wave takes twice as
/// long, because a cluster waits for room on several SMs at once.
double waves_us(const Costs& costs, double waves, int parts) {
  return costs.wave_us * (parts > 1 ? 2 : 1) * (waves - 1);
}

/// Returns how many CTAs run at once with one CTA per SM. Clusters leave some SMs idle.
double usable_sms(const DeviceInfo& device, int parts) {
  // An H200 runs 20 clusters of five at once, and 30 of four.
  if (parts == 5) return 5 * (2 * device.max_clusters_of_4 / 3);
  // Sizes of known counts; smaller clusters leave as many SMs idle.
  const int size = parts <= 2 ? parts : parts <= 4 ? 4 : 8;
  return static_cast<double>(size * clusters_at_once(size, device) / parts * parts);
}

/// Returns the 32-bit words of codes that a lane expands per fragment. int8 for bf16 tokens counts twice,
/// because it takes two passes.
int words_of(const NarrowConfig& c) {
  const int words = code_bits(c.weights.type) / 4;
  return c.weights.type == WeightType::int8 && c.x == DType::bf16 ? 2 * words : words;
}

}  // namespace

double estimate_us(const Problem& problem, const NarrowConfig& config, const DeviceInfo& device,
                   const Costs& costs) {
  const NarrowConfig& c = config;
  const double k_tiles = static_cast<double>(packed_k_tiles(problem.k));
  const double row_ctas = static_cast<double>(ceil_div(problem.n, i64{tile_rows(c)}));
  const double token_ctas = static_cast<double>(ceil_div(problem.m, i64{tile_tokens(c)}));
  const double ctas = row_ctas * token_ctas * c.parts;
  // CTAs of the busiest SM
  const double of_busiest = std::ceil(ctas / std::max(1.0, usable_sms(device, c.parts)));
  const double resident = std::min(room_for(c), of_busiest), waves = std::ceil(of_busiest / room_for(c));
  const double tiles = k_tiles / c.parts, rounds = std::ceil(std::ceil(tiles) / c.warps);

  // Counts whole tiles of tokens even if stages hold fewer (held_tokens). With only those, the model
  // preferred half strips, which are slower (1 x 8192 x 8192: 10.8 us instead of 10.5).
  const double token_bytes = tile_tokens(c) * kPackedTileK * bytes_of(c.x);
  const double weight_bytes = stage_bytes(c) - stage_token_bytes(c);
  const double in_flight = resident * c.warps * (c.stages - 1) * (weight_bytes + token_bytes);
  const double rate = std::min(costs.expanding_sm_bytes_per_us * clock_share(device),
                               in_flight / loaded_latency_us(device, costs));
  const double sm_us = of_busiest * tiles * (weight_bytes + costs.token_share * token_bytes) / rate;
  const double hbm_us = row_ctas * k_tiles * weight_bytes / device.rates.hbm_bytes_per_us;
  const double l2_us = ctas * tiles * (weight_bytes + token_bytes) / device.rates.l2_bytes_per_us;

  // The products of 8-token tiles overlap with the expansion of codes (device/packed/tile_sums.cuh).
  const double products = c.token_blocks == 1 ? 0 : costs.narrow_product_clocks * c.token_blocks;
  const double clocks =
      costs.narrow_tile_clocks + c.row_blocks * (costs.narrow_block_clocks * words_of(c) + products);
  const double busy = std::min(1.0, resident * c.warps / kSchedulers);
  // Warps take whole k-tiles. If the last round is not full, half of its idle time counts.
  const double turns = std::max(tiles, (tiles + rounds * c.warps) / 2);
  const double issue_us = of_busiest * turns * clocks / (kSchedulers * busy * device.rates.light_mhz);
  // Time of one warp's rounds in sequence; it dominates if few warps share an SM.
  const double warp_us =
      of_busiest / resident * rounds * (clocks + costs.narrow_alone_clocks) / device.rates.light_mhz;

  double sum = 0;
  for (const double us : {sm_us, hbm_us, l2_us, issue_us, warp_us}) sum += std::pow(us, costs.hard);
  const double sums_us = costs.narrow_sums_us * tile_rows(c) * tile_tokens(c) / 128.0 * of_busiest / resident;
  return device.rates.launch_us + costs.begin_us + std::pow(sum, 1 / costs.hard) + sums_us +
         waves_us(costs, waves, c.parts) + (c.parts > 1 ? costs.cluster_us * c.parts : 0.0);
}

double estimate_us(const Problem& problem, const WideConfig& c, const DeviceInfo& device,
                   const Costs& costs) {
  const double token_tiles = static_cast<double>(ceil_div(problem.m, i64{c.tokens}));
  const double row_tiles = static_cast<double>(ceil_div(problem.n, i64{kWideRows * c.cluster_n}));
  const int clusters = std::max(1, clusters_at_once(cluster_size(c), device));
  const double all = token_tiles * row_tiles;
  const double tiles = std::ceil(all / clusters);  // tiles of the busiest cluster
  const double k_tiles = static_cast<double>(packed_k_tiles(problem.k));

  const double expand = code_bits(c.weights.type) == 8 ? costs.wide_byte_clocks : costs.wide_expand_clocks;
  const double busy = all / (clusters * std::max(1.0, tiles));     // share of the SMs in use
  const double product = tensor_slowness(device, c.x) * c.tokens;  // one clock per token, for 16 of k
  const double step = std::max(product, costs.wide_issue_clocks * c.tokens + expand);
  const double store_us = costs.wide_tile_us * c.tokens / kWideMostTokens;
  const double tile_us =
      k_tiles * (kPackedTileK / 16) * step / clocks_per_us(device, c.x, busy * product / step) + store_us;
  const double weight_bytes = static_cast<double>(blob_bytes(problem));
  return device.rates.launch_us + costs.begin_us + costs.group_begin_us +
         std::max(tiles * tile_us, weight_bytes / device.rates.hbm_bytes_per_us) + store_us;
}

double estimate_us(const Problem& problem, const StripConfig& c, const DeviceInfo& device,
                   const Costs& costs) {
  const bool half = is_16bit(c.x);
  const double k_tiles = static_cast<double>(packed_k_tiles(problem.k));
  const double row_ctas = static_cast<double>(ceil_div(d_columns(problem), i64{tile_columns(c)}));
  const double token_ctas = static_cast<double>(ceil_div(problem.m, i64{c.tokens}));
  const double ctas = row_ctas * token_ctas * c.parts;
  // CTAs of the busiest SM
  const double of_busiest = std::ceil(ctas / std::max(1.0, usable_sms(device, c.parts)));
  const double tiles = std::ceil(k_tiles / c.parts);  // k-tiles per strip and CTA

  const double token_bytes = c.tokens * kPackedTileK * bytes_of(c.x);
  const double weight_bytes = static_cast<double>(c.strips) * tile_bytes(c.weights);  // per k-tile
  const double rate = costs.expanding_sm_bytes_per_us * clock_share(device);
  const double sm_us = of_busiest * tiles * (weight_bytes + token_bytes * costs.token_share) / rate;
  const double hbm_us = row_ctas * k_tiles * weight_bytes / device.rates.hbm_bytes_per_us;
  const double l2_us =
      ctas * tiles * (weight_bytes + token_bytes) / (costs.strip_l2_gain * device.rates.l2_bytes_per_us);

  const double product = half ? costs.strip_half_product_clocks : costs.strip_byte_product_clocks;
  const double scales = half ? 0 : std::max(1, tile_groups(c.weights)) * costs.strip_token_clocks;
  const double clocks =
      (costs.strip_tile_clocks + (product * tensor_slowness(device, c.x) + scales) * c.tokens) *
      (half && c.stages < 3 * c.k_groups ? costs.strip_shallow_ring : 1.0);
  const double busy =
      std::pow(math_groups(c) / static_cast<double>(kStripMostGroups), costs.strip_busy_exponent);
  const double turns = std::ceil(tiles / c.k_groups) * c.k_groups;  // all warpgroups wait for the slowest
  const double issue_us = of_busiest * turns * c.strips * clocks / (busy * device.rates.light_mhz);

  const double sharpness = half ? costs.soft : costs.hard;
  double sum = 0;
  for (const double us : {sm_us, hbm_us, l2_us, issue_us}) sum += std::pow(us, sharpness);
  const double waves = std::ceil(of_busiest / room_for(c));
  const double exchange_us = c.parts > 1 ? costs.strip_exchange_us * c.tokens * c.strips * waves : 0.0;
  return device.rates.launch_us + costs.begin_us + costs.group_begin_us + std::pow(sum, 1 / sharpness) +
         waves_us(costs, waves, c.parts) + exchange_us;
}

double room_for(const NarrowConfig& c) {
  const int by_smem = static_cast<int>(kSmemOfSm / (smem_bytes(c) + kSmemOfCta));
  const int by_registers = (1 << 16) / (threads_of(c) * round_up(estimate_registers(c), 8));
  return max(c.ctas, min(by_smem, by_registers));
}
/// A second CTA fits on an SM only with few tokens and few warpgroups; otherwise registers run out.
double room_for(const StripConfig& c) {
  if (math_groups(c) > 2 || c.tokens > 16) return 1;
  return max(1, min(2, static_cast<int>(kSmemOfSm / (smem_bytes(c) + kSmemOfCta))));
}

int estimate_registers(const NarrowConfig& c) {
  const RegisterCosts& costs = kPlanner.narrow_registers;
  const int sums = 4 * c.row_blocks * c.token_blocks + (c.norm_a ? stage_tokens(c) : 0);
  const bool zeros = c.weights.zero == ScaleZero::per_group;
  if (c.token_blocks > 1) {
    const int row_zeros = zeros && c.weights.group == 0 ? 4 * c.row_blocks : 0;
    return costs.more_base + costs.more_sums * sums + (c.weights.group == 32 ? costs.more_group_32 : 0) +
           row_zeros;
  }
  int registers = costs.base + sums + costs.row_block * min(c.row_blocks, 4);
  if (c.row_blocks > 4) registers += costs.second_strip;
  if (c.weights.group == 32) registers += costs.group_32 * min(c.row_blocks, 4);
  if (zeros) registers += c.row_blocks;
  return registers;
}

}  // namespace sluice::packed
