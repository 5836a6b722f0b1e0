// SPDX-License-Identifier: Apache-2.0
// The constants of all cost models. They hold for every Hopper GPU; rates that differ between cards are
// measured or reported by the driver (DeviceRates). The table in costs.cc gives each one's value, unit,
// meaning, source and bounds; docs/findings/constants.md says what an error of 20 % in each does. Models take
// the constants by reference, so that other values can be tried (lab/fit).
#pragma once

#include <span>

#include <sluice/device_info.h>
#include <sluice/plan/constant.h>

namespace sluice {

struct Costs {
  // All kernels.
  double begin_us, group_begin_us, loaded_latency, cluster_us, wave_us, hard, soft, token_share;
  // Tensor-core schedules that load by TMA: dense/cost_model.cc, dense/traffic.cc.
  double fp16_flop_pj, fp8_flop_pj, port_byte_pj, hbm_byte_pj, smem_read_clocks_a, smem_write_weight;
  double l2_gain_of_tma, l2_bytes_per_clock_per_sm, l2_gain_in_step, repeated_gain;
  double epilogue_fixed_clocks, epilogue_clocks_per_chunk, epilogue_clocks_per_element;
  double activation_clocks_per_element, ramp_clocks, chain_clocks_per_step, chain_clocks_of_mn_major;
  double promote_clocks_per_register, promote_drain_clocks;
  double combine_us, separate_us, separate_l2_share, exchange_bytes_per_clock;
  double gathered_gain_split, gathered_sharpness, gathered_pair_clocks, strided_line_clocks;
  // Plain schedules: dense/plain_plans.cc.
  double plain_begin_us, product_clocks, meet_clocks, group_load_clocks, plain_overlap, warp_sums_us;
  // Packed weights: packed/packed_cost_model.cc.
  double expanding_sm_bytes_per_us, narrow_tile_clocks, narrow_block_clocks, narrow_product_clocks;
  double narrow_alone_clocks, narrow_sums_us;
  double wide_issue_clocks, wide_expand_clocks, wide_byte_clocks, wide_tile_us;
  double strip_tile_clocks, strip_byte_product_clocks, strip_half_product_clocks, strip_token_clocks;
  double strip_busy_exponent, strip_exchange_us, strip_l2_gain, strip_shallow_ring;
  // Packed weights between neighbours: plan/between_neighbours.cc.
  double uneven_cost;
};
extern const Costs kCosts;

/// Returns the latency of a load from global memory, in microseconds, while many others are in flight.
inline double loaded_latency_us(const DeviceInfo& device, const Costs& costs) {
  return costs.loaded_latency * device.rates.latency_us;
}

/// Returns the rows of the table, in its order.
std::span<const Constant<Costs>> cost_constants();

}  // namespace sluice
