// SPDX-License-Identifier: Apache-2.0
// Where everything lies in a CTA's dynamic shared memory:
//   [stage 0: A | B] [stage 1: A | B] ... [store buffers of math group 0] [of group 1]
//   [block scales of stage 0] ... [barriers]
// Every stage and store buffer starts on 1,024 bytes, the repeat of the 128-byte swizzle (PTX ISA, tensor
// swizzling).
#pragma once

#include <sluice/spec/config.h>

namespace sluice {

inline constexpr int kSmemAlign = 1024;
inline constexpr int kSwizzleRowBytes = 128;
inline constexpr int kStoreBuffers = 2;   // per math warpgroup: one is filled while the other is read by TMA
inline constexpr int kMaxScaleParts = 8;  // 224 columns are 7 of 32; 8 keep the barriers aligned

SLUICE_HD constexpr int stage_a_bytes(const KernelConfig& c) {
  return c.tile.m * c.tile.k * bytes_of(c.a);
}
SLUICE_HD constexpr int stage_b_bytes(const KernelConfig& c) {
  return c.tile.n * c.tile.k * bytes_of(c.b);
}
SLUICE_HD constexpr int stage_bytes(const KernelConfig& c) {
  return stage_a_bytes(c) + stage_b_bytes(c);
}

/// Columns of D in one store buffer: the widest of 128, 64, 32, 16 bytes that divides the tile's row.
SLUICE_HD constexpr int store_columns(const KernelConfig& c) {
  const int row_bytes = c.tile.n * bytes_of(c.d);
  for (int bytes = kSwizzleRowBytes; bytes > 16; bytes /= 2)
    if (row_bytes % bytes == 0) return bytes / bytes_of(c.d);
  return 16 / bytes_of(c.d);
}
SLUICE_HD constexpr int store_row_bytes(const KernelConfig& c) {
  return store_columns(c) * bytes_of(c.d);
}
SLUICE_HD constexpr int store_buffer_bytes(const KernelConfig& c) {
  return c.store == StorePath::tma ? kWaveRows * store_row_bytes(c) : 0;
}

SLUICE_HD constexpr int stage_offset(const KernelConfig& c, int stage) {
  return stage * stage_bytes(c);
}
SLUICE_HD constexpr int store_offset(const KernelConfig& c, int group, int buffer) {
  return c.stages * stage_bytes(c) + (group * kStoreBuffers + buffer) * store_buffer_bytes(c);
}

/// Columns that share a block scale of B: the largest divisor of tile.n that divides 128 too.
SLUICE_HD constexpr int scale_part_columns(const KernelConfig& c) {
  return c.tile.n % 128 == 0 ? 128 : c.tile.n % 64 == 0 ? 64 : 32;
}
SLUICE_HD constexpr int scale_parts(const KernelConfig& c) {
  return c.tile.n / scale_part_columns(c);
}
/// Block scales of one stage: fp32, one for each row of the tile, then one for each part of its columns.
SLUICE_HD constexpr int scale_slot_bytes(const KernelConfig& c) {
  return is_block_scaled(c.epilogue) ? 4 * (c.tile.m + kMaxScaleParts) : 0;
}
SLUICE_HD constexpr int scale_offset(const KernelConfig& c, int stage) {
  return store_offset(c, kMathGroups, 0) + stage * scale_slot_bytes(c);
}

SLUICE_HD constexpr int barrier_offset(const KernelConfig& c) {
  return scale_offset(c, c.stages);
}

/// full[stages], empty[stages], turn[2]
SLUICE_HD constexpr int barrier_count(const KernelConfig& c) {
  return 2 * c.stages + kMathGroups;
}
SLUICE_HD constexpr int full_barrier(const KernelConfig&, int stage) {
  return stage;
}
SLUICE_HD constexpr int empty_barrier(const KernelConfig& c, int stage) {
  return c.stages + stage;
}
SLUICE_HD constexpr int turn_barrier(const KernelConfig& c, int group) {
  return 2 * c.stages + group;
}

// Arrivals that complete one phase of each barrier. The role and barrier tables are in kernels/gemm.cuh.

/// The load thread (the bytes do the rest), and the warps that bring block scales.
SLUICE_HD constexpr int full_arrivals(const KernelConfig& c) {
  return is_block_scaled(c.epilogue) ? 1 + kScaleWarps : 1;
}
/// Every math warp that reads the stage, in every CTA whose tile came from this CTA's multicast, or goes to
/// it: a CTA's loads reach the CTAs of its cluster row and column.
SLUICE_HD constexpr int empty_arrivals(const KernelConfig& c) {
  return (c.cluster.m + c.cluster.n - 1) * stage_readers(c) * kMathWarps;
}
SLUICE_HD constexpr int turn_arrivals(const KernelConfig&) {
  return kMathWarps;
}

SLUICE_HD constexpr int smem_bytes(const KernelConfig& c) {
  return barrier_offset(c) + 8 * barrier_count(c);
}

}  // namespace sluice
