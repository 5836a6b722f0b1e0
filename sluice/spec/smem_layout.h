// SPDX-License-Identifier: Apache-2.0
// The layout of a CTA's dynamic shared memory:
//   [stage 0: A | B] [stage 1: A | B] ... [store buffers of math group 0] [of group 1]
//   [exchange buffer of math group 0] [of group 1] [block scales of stage 0] ...
//   [scale vectors of math group 0] [of group 1] [barriers]
// Every stage and store buffer starts on 1,024 bytes, where the 128-byte swizzle repeats (PTX ISA, tensor
// swizzling).
#pragma once

#include <sluice/spec/plain.h>

namespace sluice {

inline constexpr int kSmemAlign = 1024;
inline constexpr int kSwizzleRowBytes = 128;
inline constexpr int kMnBlock = 64;       // m or n of one row of a 16-bit MN-major operand
inline constexpr int kStoreBuffers = 2;   // per math warpgroup: one is filled while TMA reads the other
inline constexpr int kMaxScaleParts = 8;  // 224 columns are 7 parts of 32; with 8 the barriers stay aligned

SLUICE_HD constexpr int stage_a_bytes(const KernelConfig& c) {
  return c.tile.m * c.tile.k * bytes_of(c.a);
}
/// Rows of B for which a stage has memory: an MN-major operand is loaded in whole blocks.
SLUICE_HD constexpr int stage_b_rows(const KernelConfig& c) {
  return c.b_major == Major::mn ? round_up(c.tile.n, kMnBlock) : c.tile.n;
}
SLUICE_HD constexpr int stage_b_bytes(const KernelConfig& c) {
  return stage_b_rows(c) * c.tile.k * bytes_of(c.b);
}
SLUICE_HD constexpr int stage_bytes(const KernelConfig& c) {
  return stage_a_bytes(c) + stage_b_bytes(c);
}

/// Columns of the tile in one store buffer. A row in the buffer is the widest of 128, 64, 32, 16 bytes of D
/// that divides the tile's row. With swapped operands the columns are D's rows, 128 bytes each, and need not
/// divide the tile.
SLUICE_HD constexpr int store_columns(const KernelConfig& c) {
  if (is_swapped(c)) {
    int columns = kWaveRows;
    while (columns > 8 && own_columns(c) % columns != 0) columns -= 8;
    return columns;
  }
  const int row_bytes = own_outputs(c) * bytes_of(c.d);
  for (int bytes = kSwizzleRowBytes; bytes > 16; bytes /= 2)
    if (row_bytes % bytes == 0) return bytes / bytes_of(c.d);
  return 16 / bytes_of(c.d);
}
/// Bytes of one row of D in a store buffer.
SLUICE_HD constexpr int store_row_bytes(const KernelConfig& c) {
  return (is_swapped(c) ? kWaveRows : store_columns(c)) * bytes_of(c.d);
}
SLUICE_HD constexpr int store_buffer_bytes(const KernelConfig& c) {
  return c.store == StorePath::tma ? kWaveRows * store_columns(c) * bytes_of(c.d) : 0;
}

SLUICE_HD constexpr int stage_offset(const KernelConfig& c, int stage) {
  return stage * stage_bytes(c);
}
SLUICE_HD constexpr int store_offset(const KernelConfig& c, int group, int buffer) {
  return c.stages * stage_bytes(c) + (group * kStoreBuffers + buffer) * store_buffer_bytes(c);
}

/// The exchange in a cluster along k: every CTA sends each peer the partial sums of that peer's columns, in
/// one or more passes.
// Limit for a CTA's exchange buffer. The columns of a pass are halved until the buffer fits, or until they
// are an odd number of 8-column groups.
inline constexpr int kExchangeBytes = 32 * 1024;
SLUICE_HD constexpr int exchange_passes(const KernelConfig& c) {
  const int groups = c.schedule == Schedule::ping_pong ? kMathGroups : 1;
  int passes = 1;
  while (groups * c.tile.m * c.tile.n * 4 / passes > kExchangeBytes && own_columns(c) % (16 * passes) == 0)
    passes *= 2;
  return passes;
}
/// Columns that a CTA receives per pass; they are part of its own columns.
SLUICE_HD constexpr int pass_columns(const KernelConfig& c) {
  return own_columns(c) / exchange_passes(c);
}
/// Bytes that one math group receives per pass: its columns from every CTA of the cluster, itself included.
SLUICE_HD constexpr int exchange_buffer_bytes(const KernelConfig& c) {
  return c.cluster.k == 1 ? 0 : c.cluster.k * group_rows(c) * pass_columns(c) * 4;
}
/// Bytes that each CTA sends per pass: only warps with rows inside the matrix (16 rows each) send.
/// `live_rows`: from the group's first row on; 0 or less: none.
inline constexpr int kWarpRows = 16;
SLUICE_HD constexpr int exchange_live_bytes(const KernelConfig& c, int live_rows) {
  const int rows = max(0, min(ceil_div(live_rows, kWarpRows) * kWarpRows, group_rows(c)));
  return rows * pass_columns(c) * 4;
}
SLUICE_HD constexpr int exchange_offset(const KernelConfig& c, int group) {
  return store_offset(c, kMathGroups, 0) + group * exchange_buffer_bytes(c);
}

/// Columns of D that share a block scale of B: the largest divisor of the tile's that also divides 128, or
/// one.
SLUICE_HD constexpr int scale_part_columns(const KernelConfig& c) {
  if (scales_each_column(c.epilogue)) return 1;
  const int columns = outputs_of(c.epilogue, c.tile.n);
  return columns % 128 == 0 ? 128 : columns % 64 == 0 ? 64 : 32;
}
/// Parts of the tile's columns, each within one block of B. A gated tile has two for the same columns of D:
/// all parts of the gate come first, then those of "up".
SLUICE_HD constexpr int scale_parts(const KernelConfig& c) {
  return c.tile.n / scale_part_columns(c);
}
/// The part of column `column` of the tile.
SLUICE_HD constexpr int scale_part_of(const KernelConfig& c, int column) {
  if (!c.epilogue.gated) return column / scale_part_columns(c);
  const int output = column / kGatedGroup * kGatedRows, side = column % kGatedGroup / kGatedRows;
  return side * (scale_parts(c) / 2) + output / scale_part_columns(c);
}
/// The block of B's rows, of n, that part `part` of the tile at `n_offset` takes its scale from. Parts
/// outside of the matrix, or of the tile, take that of the last rows. Not for ScaleMode::vector128.
SLUICE_HD constexpr int scale_block_of(const KernelConfig& c, int n, int n_offset, int part) {
  const int blocks = ceil_div(n, kScaleBlock);
  if (!c.epilogue.gated) return min((n_offset + part * scale_part_columns(c)) / kScaleBlock, blocks - 1);
  const int of_side = scale_parts(c) / 2, half = blocks / 2;
  const int output = n_offset / 2 + part % of_side * scale_part_columns(c);
  return min(part / of_side * half + min(output / kScaleBlock, half - 1), blocks - 1);
}
/// Bytes of the block scales of one stage: fp32, one per row of the tile, then one per part of its columns.
SLUICE_HD constexpr int scale_slot_bytes(const KernelConfig& c) {
  if (!is_block_scaled(c.epilogue)) return 0;
  return 4 * (c.tile.m + (scales_each_column(c.epilogue) ? c.tile.n : kMaxScaleParts));
}
SLUICE_HD constexpr int scale_offset(const KernelConfig& c, int stage) {
  return exchange_offset(c, kMathGroups) + stage * scale_slot_bytes(c);
}

/// Bytes of the scales of one math group's rows and columns, if they are vectors, and of its columns' bias
/// (device/epilogue/epilogue_vectors.cuh).
SLUICE_HD constexpr int bias_bytes(const KernelConfig& c) {
  return c.epilogue.bias == Bias::column ? own_columns(c) * bytes_of(c.epilogue.bias_type) : 0;
}
SLUICE_HD constexpr int epilogue_vector_bytes(const KernelConfig& c) {
  const int rows = c.epilogue.scale_a == ScaleMode::vector ? group_rows(c) : 0;
  const int columns = c.epilogue.scale_b == ScaleMode::vector ? own_columns(c) : 0;
  return 4 * (rows + columns) + bias_bytes(c);
}
SLUICE_HD constexpr int epilogue_vector_offset(const KernelConfig& c, int group) {
  return scale_offset(c, c.stages) + group * epilogue_vector_bytes(c);
}

SLUICE_HD constexpr int barrier_offset(const KernelConfig& c) {
  return epilogue_vector_offset(c, kMathGroups);
}

/// full[stages], empty[stages], turn[2], sums_full[2], sums_empty[2]
SLUICE_HD constexpr int barrier_count(const KernelConfig& c) {
  return 2 * c.stages + kMathGroups * (c.cluster.k == 1 ? 1 : 3);
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

SLUICE_HD constexpr int sums_full_barrier(const KernelConfig& c, int group) {
  return turn_barrier(c, kMathGroups) + group;
}
SLUICE_HD constexpr int sums_empty_barrier(const KernelConfig& c, int group) {
  return sums_full_barrier(c, kMathGroups) + group;
}

// Arrivals that complete one phase of each barrier. kernels/gemm.cuh has the tables of roles and barriers.

/// The load thread (the bytes that it expects must arrive too), and the warps that load block scales or
/// strided operands.
SLUICE_HD constexpr int full_arrivals(const KernelConfig& c) {
  if (loads_strided(c)) return 1 + kStridedWarps;
  return is_block_scaled(c.epilogue) ? 1 + kScaleWarps : 1;
}
/// Every math warp that reads the stage, in each CTA of this CTA's cluster row and column: those that receive
/// its multicasts or send it theirs.
SLUICE_HD constexpr int empty_arrivals(const KernelConfig& c) {
  return (c.cluster.m + c.cluster.n - 1) * stage_readers(c) * kMathWarps;
}
SLUICE_HD constexpr int turn_arrivals(const KernelConfig&) {
  return kMathWarps;
}

/// One thread of the group, which also announces the expected bytes.
SLUICE_HD constexpr int sums_full_arrivals(const KernelConfig&) {
  return 1;
}
/// Each warp of the same group in every CTA of the cluster, once it has read the sums that it received.
SLUICE_HD constexpr int sums_empty_arrivals(const KernelConfig& c) {
  return c.cluster.k * kMathWarps;
}

/// The table of groups (spec/groups.h), in ints.
SLUICE_HD constexpr int group_table_offset(const KernelConfig& c) {
  return barrier_offset(c) + 8 * barrier_count(c);
}
SLUICE_HD constexpr int group_table_bytes(const KernelConfig& c) {
  return reads_table(c) ? 4 * group_table_ints(c.groups.most) : 0;
}

SLUICE_HD constexpr int smem_bytes(const KernelConfig& c) {
  if (is_plain(c.schedule)) return plain_smem_bytes(c);
  return group_table_offset(c) + group_table_bytes(c);
}

}  // namespace sluice
