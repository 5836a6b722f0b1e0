// SPDX-License-Identifier: Apache-2.0
// How long a configuration will take, from what is known about the machine: waves, tensor time, shared
// memory, L2 and HBM bytes, and what is not hidden behind them. Pure arithmetic; every constant is in
// CostConstants, so that a fit to measurements changes one table. Called by candidates.cc.
// The model is there to rank configurations of one problem, not to predict a time to the percent.
#pragma once

#include <sluice/plan.h>

namespace sluice {

/// Clocks are SM clocks. What sluice_fit may move was fitted on an H200 to the 372 problems of the first
/// records, what few tokens and splits feel to 258 others (2026-11-21), sums of parts, the exchange and
/// repeated bytes again to 287 (2026-11-22), six constants to 656 and promoted_cluster_clocks_per_k_tile to
/// 56 (2026-11-23): docs/tuning.md, "Fitting the model". The comments say what a constant stands for, and
/// where it started.
struct CostConstants {
  // Share of the sustained WGMMA rate that the main loop keeps; L2 and epilogue are counted apart.
  double mainloop_efficiency = 0.962;

  // Shared memory: 128 bytes a clock. One 64 x n WGMMA step reads 16 + n/4 rows; TMA
  // writes a row of the stage in a clock, but in the gaps: only part of it shows.
  double smem_read_clocks_a = 12.05;
  double smem_read_clocks_per_column = 0.25;
  double smem_write_weight = 0.615;

  // The GPU is at its power limit: what moves from L2 lowers the clock (docs/findings/power.md).
  double power_clocks_per_l2_byte = 0.0003294;

  // L2 to SM: plain loads measure 8.1 TB/s with all SMs reading (38 bytes a clock and SM); TMA gets more. A
  // lone SM cannot take more than its port gives. Both fits ended at the bound that they were given.
  double l2_gain_of_tma = 1.4;
  double l2_bytes_per_clock_per_sm = 80;
  // A row in two lines is two requests: the second costs as much as the first (docs/findings/mn-major.md).
  double split_line_weight = 1;
  // Lone CTAs that ask at one time are answered together (docs/findings/gpc.md); multicasts are not.
  double l2_gain_in_step = 1.35;
  // Bytes that two clusters ask for while they are on their way from HBM: what the second asking costs. Pairs
  // that share weights against pairs that share tokens, 256 rows: 18e6; the fit is milder.
  double repeated_bytes_per_us = 28.2e6;
  // From a TMA load to its bytes, L2 and HBM mixed. At its bound too.
  double load_latency_us = 1.266;

  // How sharply the slowest of several overlapping things wins: times are joined as an l^p norm. A large p
  // is a plain maximum.
  double sharpness_in_tile = 9.475;
  double sharpness_in_kernel = 3.735;

  // Epilogue of one tile, for a math thread: a fixed part (drain of the last WGMMA, barriers, first store)
  // and issue slots for each element; two groups at it share the issue slots (from 2.5 instructions an
  // element and the stmatrix).
  double epilogue_fixed_clocks = 371.8;
  double epilogue_clocks_per_chunk =
      106.9;  // of 128, 64 or 32 bytes of a row of D: wait, fence, barrier, store
  double epilogue_clocks_per_element = 2.798;
  double bias_clocks_per_element = 0.3;
  double scale_clocks_per_element = 1;  // for each vector: a product, or its way through shared memory
  double residual_clocks_per_element = 3;
  double gelu_clocks_per_element = 15;
  double silu_clocks_per_element = 14;
  double fp32_output_weight = 1.5;
  double direct_store_weight = 3;
  // Ping-pong: from the last WGMMA of one group to the first of the other. Cooperative: ramp after an
  // epilogue, with the ring already full.
  double turn_clocks = 47.14;
  double ramp_clocks = 331.5;
  // A ping-pong group of 64 rows has one chain of WGMMAs, each waiting for the sums of the one before; two
  // chains (128 rows), or two groups at once, fill the gap. Fit to H200 times of 64x256 against 128x128,
  // 2026-11-21.
  double chain_clocks_per_step = 6.898;
  double chain_clocks_of_mn_major = 3;  // more, for each operand that the step reads across its rows
  // Promotion: one add for each accumulator, and the tensor pipe drained each time.
  double promote_clocks_per_register = 0.6913;
  double promote_drain_clocks = 84.57;
  double sharpness_of_promotion = 3.91;
  // Block scales on top: a multiply-add of three registers for an add, and the scales' way to registers.
  double block_scale_clocks_per_register = 0.06953;
  double block_scale_clocks = 11.02;
  // The groups of a cluster wait for each other's loads; with promotion they drift apart more.
  double cluster_clocks_per_k_tile = 0.7635;
  double promoted_cluster_clocks_per_k_tile = 20;

  // Once a kernel: an empty kernel is 0.5 us; barriers, tensor maps and the first bytes from HBM to the first
  // WGMMA about 1.5 us (read floor of a small kernel); a cluster starts later.
  double launch_us = 0.6;
  double first_bytes_us = 1.282;
  double cluster_us = 0.4072;
  double last_store_us = 0.2575;

  // Tiles that clusters share: from the last product to the sums of all being there, beside the bytes: the
  // write must have come to L2, the counter answers, the first slot is read.
  double combine_us = 4.579;
  double combine_bytes_per_clock = 100;  // of an SM, to and from L2
  double piece_clocks = 6612;            // what a run pays for each tile it touches
  // A kernel that adds up the parts instead: the sums' way to L2 and its start behind the last CTA, and L2 to
  // all SMs at once.
  double separate_us = 2.2;
  double separate_bytes_per_us = 1.7e6;
  // Where each part is added to D instead (Combine::add), each byte of it costs L2 a read and a write: within
  // 10 % of two H200 timings (512x512x32768 28.0 us, 128x1024x65536 41.1), not fitted.
  double add_l2_weight = 2;
  // The same inside of a cluster along k: a pass there and back, and the bytes.
  double exchange_pass_clocks = 200;
  double exchange_bytes_per_clock = 9.771;
};

inline constexpr CostConstants kCostConstants{};

/// Clusters that can be resident at once.
int max_clusters(const KernelConfig& config, const DeviceInfo& device);

/// `problem` has its strides filled in and is not empty; the config is valid.
Estimate estimate(const Problem& problem, const KernelConfig& config, const WorkSplit& split,
                  const DeviceInfo& device, const CostConstants& constants = kCostConstants);

}  // namespace sluice
