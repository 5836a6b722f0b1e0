// SPDX-License-Identifier: Apache-2.0
// Numbers that the planner was given: costs of its models, bounds of its search, lists that it tries. The
// table in constants.cc gives each its value, unit, meaning and source. Facts of a GPU are in device_info.h,
// rules of kernels in spec. Models take their set by reference, so that other values can be tried.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <sluice/spec/dtype.h>

namespace sluice {

/// Kinds of constants. device: times and rates of one H200; a calibration on another GPU replaces these, as
/// it does DeviceInfo's. sm: clocks of a Hopper SM, the same on every Hopper. model: how terms are joined.
/// search: what is tried, and what is preferred.
enum class Origin : u8 { device, sm, model, search };
const char* name_of(Origin origin);

/// A row of the table.
template <class Set, class Number = double>
struct Constant {
  const char* name;
  Number Set::*member;
  Number value;
  const char* unit;
  Origin origin;
  const char* meaning;
  const char* source;          // a page of docs, or the measurement
  double least = 0, most = 0;  // physical limits for sluice_fit; both 0: it moves other constants only
};

/// Tensor-core schedules that load by TMA: dense/cost_model.cc, dense/traffic.cc, dense/numbering.cc.
struct DenseCosts {
  double mainloop_efficiency, smem_read_clocks_a, smem_read_clocks_per_column, smem_write_weight;
  double power_clocks_per_l2_byte, l2_gain_of_tma, l2_bytes_per_clock_per_sm, split_line_weight;
  double l2_gain_in_step, repeated_bytes_per_us, load_latency_us, usable_l2;
  double sharpness_in_tile, sharpness_in_kernel, sharpness_of_promotion;
  double epilogue_fixed_clocks, epilogue_clocks_per_chunk, epilogue_clocks_per_element;
  double bias_clocks_per_element, scale_clocks_per_element, residual_clocks_per_element;
  double gelu_clocks_per_element, silu_clocks_per_element, fp32_output_weight, direct_store_weight;
  double turn_clocks, ramp_clocks, chain_clocks_per_step, chain_clocks_of_mn_major;
  double promote_clocks_per_register, promote_drain_clocks;
  double block_scale_clocks_per_register, block_scale_clocks;
  double cluster_clocks_per_k_tile, promoted_cluster_clocks_per_k_tile;
  double launch_us, first_bytes_us, cluster_us, last_store_us;
  double combine_us, combine_bytes_per_clock, piece_clocks, separate_us, separate_bytes_per_us, add_l2_weight;
  double exchange_pass_clocks, exchange_bytes_per_clock;
  double strided_line_clocks;
  double apart_hbm_weight, gathered_gain_split, gathered_sharpness, gathered_pair_clocks;
};

/// Plain schedules, for few rows of A: dense/plain_plans.cc.
struct PlainCosts {
  double launch_us, sm_bytes_per_us, latency_us, tokens_share;
  double product_clocks, fp8_expand_clocks, load_clocks, wgmma_clocks, meet_clocks, group_load_clocks;
  double clocks_per_us, overlap, cluster_of_2_us, cluster_of_4_us, cluster_of_8_us;
  double reduce_us, tail, wave_us, beside_roles;
};

/// Issue slots of one k-tile in a warp of the narrow kernel.
struct IssueCosts {
  double tile_clocks, token_block_clocks, block_clocks, product_clocks, busy_warps;
};

/// Packed weights, narrow kernel: packed/packed_cost_model.cc. `few`: tiles of 8 tokens
/// (device/packed/tile_sums.cuh). `more`: tiles of 16 and 32 (token_rows.cuh).
struct NarrowCosts {
  double fixed_us, sm_bytes_per_us, token_share, latency_us, clocks_per_us, bf16_work;
  double reduce_us, wave_us, cluster_wave_us, part_us, sharpness, fives_for_fours;
  IssueCosts few, more;
};

/// Registers that ptxas gives a thread of the narrow kernel: estimate_registers().
struct RegisterCosts {
  int base, row_block, second_strip, group_32, more_base, more_sums, more_group_32;
};

/// Packed weights, wide kernel. The two warpgroups' products and instructions share issue slots, so that a
/// step of 16 k takes longer than either.
struct WideCosts {
  double fixed_us, clocks_per_us, product_clocks, issue_clocks, expand_clocks, expand_byte_clocks;
  double zero_clocks, tile_us, last_tile_us, exchange_us;
};

/// Packed weights, strip kernel. A tile is 64 rows x 128 k.
struct StripCosts {
  double fixed_us, sm_bytes_per_us, token_share, latency_us, clocks_per_us, tile_clocks, product_clocks;
  double token_clocks, busy_exponent, wave_us, cluster_wave_us, reduce_us, part_us, exchange_us, l2_share;
  double shallow_ring, sharpness;
};

/// Rates of the H200 that the costs were fitted on: device_rates.h scales them to another GPU.
struct FittedOn {
  double max_sm_mhz, hbm_bytes_per_us, l2_bytes_per_us, fp16_flops_per_clock, fp8_flops_per_clock;
};

/// How few kernels are chosen for a range of rows: row_plans.cc, few_kernels.cc.
struct RowCosts {
  double unused_split, row_too_many, record_gain, few_rows_weight, felt_loss, least_gain;
};

/// Bounds of what is tried.
struct SearchBounds {
  i64 swapped_rows, fitted_waves, fitted_width, splits_of_config, run_k_tiles;
  i64 gpc_sms, gpc_tensor_share, gpc_parts;
  i64 two_wave_rows, borrowed_rows;
  i64 narrow_tokens, strip_tokens, strip_stages, strip_group_tokens, part_k_tiles;
  i64 all_rows, few_rows, octave_steps, near_picks;
};

struct PlannerConstants {
  DenseCosts dense;
  PlainCosts plain;
  NarrowCosts narrow;
  RegisterCosts narrow_registers;
  WideCosts wide;
  StripCosts strip_bytes, strip_halves;  // e4m3 tokens, 16-bit tokens
  FittedOn fitted_on;
  RowCosts rows;
  SearchBounds search;

  const StripCosts& strip(DType tokens) const { return is_16bit(tokens) ? strip_halves : strip_bytes; }
};
extern const PlannerConstants kPlanner;

/// Lists of values, in the order that settles ties.
namespace tried {
inline constexpr int kRasterGroups[] = {1, 2, 4, 8, 16, 32};
inline constexpr int kSplits[] = {2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64};
inline constexpr int kPlainParts[] = {1, 2, 4, 8};
inline constexpr int kRowBlocks[] = {4, 2, 8};
inline constexpr int kWarps[] = {4, 8, 12, 16};
inline constexpr int kStages[] = {3, 4, 2, 5, 6};
inline constexpr int kParts[] = {1, 2, 4, 8};
inline constexpr int kCtas[] = {1, 2, 3};
inline constexpr int kWideTokens[] = {32, 64, 128, 256};
inline constexpr int kWideClusters[] = {1, 2};
inline constexpr int kTailParts[] = {1, 2};
inline constexpr int kXRings[] = {8, 6, 6, 5, 5, 4, 3, 3};
inline constexpr int kWRings[] = {4, 3, 2, 4, 2, 2, 2, 1};
inline constexpr int kStripTokens[] = {8, 16, 32, 64, 128};
inline constexpr int kStrips[] = {4, 2, 1};
inline constexpr int kKGroups[] = {4, 2, 1};
inline constexpr int kHalfKGroups[] = {4, 2, 1, 3};
inline constexpr int kHalfParts[] = {1, 2, 4, 8, 5};
}  // namespace tried

/// The rows of dense costs, which sluice_fit moves.
std::span<const Constant<DenseCosts>> dense_constants();

/// A row as people read it. `value`: one number, or a list's.
struct ConstantText {
  std::string set, name, value, unit, origin, meaning, source;
};
/// The whole table, lists too.
std::vector<ConstantText> all_constants();

}  // namespace sluice
