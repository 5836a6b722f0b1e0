// SPDX-License-Identifier: Apache-2.0
// How long a configuration of a packed kernel will take with cold L2. Narrow: a fixed part, the slowest of
// four things that overlap (HBM, L2, what an SM can take, instructions), and the sums that meet at the end.
// Wide: a fixed part, and for each tile the slower of products and instructions, and its stores. Strip: as
// narrow, and the tensor cores. It is there to rank configurations of one problem. Called by
// packed_planner.cc.
#pragma once

#include <sluice/packed.h>

namespace sluice::packed {

/// Issue slots of one k-tile in a warp, and how many warps of an SM fill them.
struct IssueCosts {
  double tile_clocks;         // ring, addresses, scales
  double token_block_clocks;  // for each 8 tokens: loads, sums of tokens
  double block_clocks;        // for each 16 rows and word of codes
  double product_clocks;      // for each 16 rows x 8 tokens
  double busy_warps;
};

/// `few` was fitted to 417 measurements (H200, 2026-11-21: uint4, group 64, fp16, 1 to 32 tokens, cold L2),
/// the rest, with WideCosts, to those of the tuner (bench/shapes/packed_grid.txt but for every fifth
/// problem): docs/findings/few-bit-weights.md ("Tuned") says how well. Rates of HBM and L2 are the device's.
struct PackedCosts {
  double fixed_us = 1.98;           // launch, first bytes, last stores
  double sm_bytes_per_us = 40.3e3;  // that one SM takes
  double token_share = 0.138;       // of the tokens' bytes that count there: they are in L2
  double latency_us = 1.38;         // from a copy to its bytes: what is in flight over it is a rate too
  double clocks_per_us = 1755;      // of an SM
  /// Tiles of 8 tokens (device/packed/tile_sums.cuh).
  IssueCosts few{70, 35, 8, 9.8, 8};
  /// Of 16 and 32 (token_rows.cuh): one warp a scheduler nearly fills its slots.
  IssueCosts more{67.6, 22.8, 39.9, 77.4, 4.78};
  double bf16_work = 1.29;       // to expand codes for bf16 tokens, in that for fp16
  double reduce_us = 0.132;      // for each four sums of a warp that a thread adds up at the end
  double wave_us = 0.754;        // for each wave of CTAs after the first
  double cluster_wave_us = 2.0;  // the same of clusters
  double part_us = 0.373;        // for each CTA of a cluster
  double sharpness = 14.2;       // times are joined as an l^p norm
};

/// Of the wide kernel. The two warpgroups' products and instructions share issue slots, so that a step of 16
/// k takes longer than either. (product_clocks is of 60 products of 17 to 1024 tokens: H200, 2026-11-21.)
struct WideCosts {
  double fixed_us = 2.72;           // launch, first bytes
  double clocks_per_us = 1755;      // of an SM
  double product_clocks = 1.0;      // for each token, of a step of 16 k
  double issue_clocks = 0.456;      // the same where instructions are what a step waits for, and beside it:
  double expand_clocks = 85;        // to make weights of 4-bit codes
  double expand_byte_clocks = 110;  // of 8-bit codes
  double zero_clocks = 6;           // with stored zeros
  double tile_us = 2.52;            // stores of 256 tokens, which nothing hides
  double last_tile_us = 1.85;       // and of the last ones, until they have arrived
  double exchange_us = 0.986;       // where two CTAs share k: for 64 tokens
};

/// Of the strip kernel, here for e4m3 tokens, fitted with the others. A tile is 64 rows x 128 k. Rates of HBM
/// and L2 are the device's.
struct StripCosts {
  double fixed_us = 2.83;           // launch, first bytes, last stores
  double sm_bytes_per_us = 39.0e3;  // that one SM takes
  double token_share = 0.272;       // of the tokens' bytes that counts there: they are in L2
  double latency_us = 0.327;        // from a copy to its bytes: what is in flight over it is a rate too
  double clocks_per_us = 1755;      // of an SM
  double tile_clocks = 137;         // of a tile: codes, barriers
  double product_clocks = 1.88;     // for each token
  double token_clocks = 0.678;      // for each token and scale of a row in the tile
  double busy_exponent = 0.187;     // of the warpgroups, as a share of four
  double wave_us = 1.62;            // for each wave of CTAs after the first
  double cluster_wave_us = 2.69;    // the same of clusters
  double reduce_us = 0.00034;       // for each token of a warpgroup's sums that are put into shared memory
  double part_us = 0.108;           // for each CTA of a cluster
  double exchange_us = 0.005;       // where there is one: for each token of a strip, whose sums CTAs exchange
  double l2_share = 1;              // of L2's rate: more where neighbours in a GPC ask for the same tokens
  double shallow_ring = 1;          // times the clocks of a tile, where a warpgroup has only two stages
  double sharpness = 12;
};

/// The same for 16-bit tokens, whose scales cost nothing more with more of them. Fitted to 226 problems
/// of 17 to 128 tokens, whose picks lose 0.5 % on average (H200, 2026-11-23):
/// docs/findings/few-bit-weights.md.
inline constexpr StripCosts kHalfStripCosts{.fixed_us = 3.17,
                                            .sm_bytes_per_us = 49.4e3,
                                            .token_share = 0.18,
                                            .latency_us = 0.762,
                                            .tile_clocks = 149,
                                            .product_clocks = 3.06,
                                            .token_clocks = 0,
                                            .busy_exponent = 0.067,
                                            .wave_us = 1.63,
                                            .cluster_wave_us = 3.69,
                                            .reduce_us = 0.00146,
                                            .part_us = 0.08,
                                            .exchange_us = 0.0072,
                                            .l2_share = 1.82,
                                            .shallow_ring = 1.38,
                                            .sharpness = 3.9};
inline constexpr StripCosts kByteStripCosts{};
constexpr const StripCosts& strip_costs(DType x) {
  return is_16bit(x) ? kHalfStripCosts : kByteStripCosts;
}

/// In microseconds, of a checked problem that is not empty.
double estimate_us(const PackedProblem& problem, const NarrowConfig& config, const DeviceInfo& device,
                   const PackedCosts& costs = {});
double estimate_us(const PackedProblem& problem, const WideConfig& config, const DeviceInfo& device,
                   const WideCosts& costs = {});
double estimate_us(const PackedProblem& problem, const StripConfig& config, const DeviceInfo& device,
                   const StripCosts& costs);
inline double estimate_us(const PackedProblem& problem, const StripConfig& config, const DeviceInfo& device) {
  return estimate_us(problem, config, device, strip_costs(config.x));
}

/// Registers that a thread takes if it may (ptxas 13.0, 77 configs compiled, within 10 of most): with a
/// smaller share of the SM it spills, or nearly. tests/unit/packed_units_test.cc compiles what the planner
/// picks.
int estimate_registers(const NarrowConfig& config);

}  // namespace sluice::packed
