// SPDX-License-Identifier: Apache-2.0
// How long a configuration of a mixed kernel will take with cold L2. Narrow: a fixed part, the slowest of
// four things that overlap (HBM, L2, what an SM can take, instructions), and the sums that meet at the end.
// Wide: a fixed part, and for each tile the slower of products and instructions, and its stores. Byte: as
// narrow, and the tensor cores. It is there to rank configurations of one problem. Called by
// mixed_planner.cc.
#pragma once

#include <sluice/mixed.h>

namespace sluice::mixed {

/// Fitted to 38 measurements (H200, 2026-11-21: uint4, group 64, fp16, 1 to 32 tokens, cold L2); most are met
/// within 6 %, the worst is 25 % off. Rates of HBM and L2 are the device's.
struct MixedCosts {
  double fixed_us = 1.81;           // launch, first bytes, last stores
  double sm_bytes_per_us = 52.8e3;  // that one SM takes; half of the tokens' bytes count: they are in L2
  double latency_us = 1.0;          // from a copy to its bytes: what is in flight over it is a rate too
  double clocks_per_us = 1755;      // of an SM
  double tile_clocks = 70;          // issue slots of one k-tile in a warp: ring, addresses, scales
  double token_block_clocks = 35;   // for each 8 tokens: loads, sums of tokens
  double block_clocks = 8;          // for each 16 rows and word of codes
  double product_clocks = 9.8;      // for each 16 rows x 8 tokens
  double busy_warps = 14.4;         // fewer do not fill the issue slots
  double reduce_us = 0.127;         // for each four sums of a warp that a thread adds up at the end
  double part_us = 0.166;           // for each CTA of a cluster
  double sharpness = 5.7;           // times are joined as an l^p norm
};

/// Of the wide kernel: read off 60 products of 17 to 1024 tokens (H200, 2026-11-21: uint4, group 64, bf16,
/// cold L2), of which it meets most within 10 %. The two warpgroups' products and instructions share issue
/// slots, so that a step of 16 k takes longer than either.
struct WideCosts {
  double fixed_us = 3.0;            // launch, first bytes
  double clocks_per_us = 1755;      // of an SM
  double product_clocks = 1.0;      // for each token, of a step of 16 k
  double issue_clocks = 0.46;       // the same where instructions are what a step waits for, and beside it:
  double expand_clocks = 86;        // to make weights of 4-bit codes
  double expand_byte_clocks = 110;  // of 8-bit codes
  double zero_clocks = 6;           // with stored zeros
  double tile_us = 2.8;             // stores of 256 tokens, which nothing hides
  double last_tile_us = 2.6;        // and of the last ones, until they have arrived
  double exchange_us = 0.5;         // where two CTAs share k
};

/// Of the kernel for e4m3 tokens: reckoned from its instructions, not fitted yet. A tile is 64 rows x 128 k.
struct ByteCosts {
  double fixed_us = 2.0;            // launch, first bytes, last stores
  double sm_bytes_per_us = 52.8e3;  // as of narrow; half of the tokens' bytes count
  double latency_us = 1.0;          // from a copy to its bytes
  double clocks_per_us = 1755;      // of an SM
  double tile_clocks = 130;         // issue slots of a tile in a warp: barriers, codes, products
  double group_clocks = 25;         // for each scale of a row in the tile
  double token_clocks = 0.75;       // for each of them and token: a sum is scaled and added, the zero too
  double product_clocks = 2.0;      // of a tile in the tensor cores, for each token; 16 at least
  double least_product_tokens = 16;
  double busy_groups = 3;     // fewer warpgroups do not fill the issue slots
  double wave_us = 0.8;       // where CTAs come one after the other
  double reduce_us = 0.0006;  // for each token of a warpgroup's sums that are put into shared memory
  double part_us = 0.2;       // for each CTA of a cluster
  double sharpness = 5;
};

/// In microseconds, of a checked problem that is not empty.
double estimate_us(const MixedProblem& problem, const NarrowConfig& config, const DeviceInfo& device,
                   const MixedCosts& costs = {});
double estimate_us(const MixedProblem& problem, const WideConfig& config, const DeviceInfo& device,
                   const WideCosts& costs = {});
double estimate_us(const MixedProblem& problem, const ByteConfig& config, const DeviceInfo& device,
                   const ByteCosts& costs = {});

/// Registers that a thread takes if it may (ptxas 13.0, 32 configs compiled, within 10 of all): with a
/// smaller share of the SM it spills, or nearly. tests/unit/mixed_units_test.cc compiles what the planner
/// picks.
int estimate_registers(const NarrowConfig& config);

}  // namespace sluice::mixed
