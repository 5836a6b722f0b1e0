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

/// Of the kernel for e4m3 tokens: fitted to the 118 products of docs/findings/few-bit-weights.md ("e4m3
/// tokens"), of which it meets most within 6 % (rms 5.3 %; 128 tokens with groups of 128 take up to a fifth
/// less). A tile is 64 rows x 128 k. Rates of HBM and L2 are the device's.
struct ByteCosts {
  double fixed_us = 3.0;            // launch, first bytes, last stores
  double sm_bytes_per_us = 38.3e3;  // that one SM takes
  double token_share = 0.31;        // of the tokens' bytes that counts there: they are in L2
  double latency_us = 0.32;         // from a copy to its bytes: what is in flight over it is a rate too
  double clocks_per_us = 1755;      // of an SM
  double tile_clocks = 138;         // of a tile: codes, barriers
  double product_clocks = 1.55;     // for each token, 16 at least
  double token_clocks = 0.70;       // for each token and scale of a row in the tile
  double least_product_tokens = 16;
  double busy_exponent = 0.04;  // of the warpgroups, as a share of four
  double wave_us = 3.0;         // where CTAs come one after the other
  double reduce_us = 0.0009;    // for each token of a warpgroup's sums that are put into shared memory
  double part_us = 0.114;       // for each CTA of a cluster
  double sharpness = 12;
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
