// SPDX-License-Identifier: Apache-2.0
// Derived values of a plain schedule (kernels/plain.cuh): few rows of A ("tokens"), both operands K-major, no
// TMA. Rows of B are the tensor core's rows, rows of A its columns. A CTA has one tile of tile.m tokens x
// tile.n rows of B. Its teams take 128-byte k-tiles in turn, each through a ring of its own. A team is a warp
// (Schedule::plain: mma.sync) or a warpgroup (Schedule::plain_wgmma).
//
// A WGMMA has 64 rows. If two or four tiles' rows fit in those, a stage holds as many k-tiles: their rows of
// B are WGMMA's rows, their tokens its columns. Products of one k-tile's rows with another's tokens are
// ignored. They cost nothing up to 36 columns, because a WGMMA takes at least 18 clocks. In other tiles the
// last WGMMA reads past B's rows, and those products are ignored too.
#pragma once

#include <sluice/spec/config.h>
#include <sluice/spec/warp_sums.h>

namespace sluice {

inline constexpr int kPlainRowBytes = 128;  // bytes of k per row in a stage
inline constexpr int kMaxPlainCtas = 3;

SLUICE_HD constexpr int team_warps(const KernelConfig& c) {
  return c.schedule == Schedule::plain_wgmma ? 4 : 1;
}
SLUICE_HD constexpr int teams(const KernelConfig& c) {
  return c.warps / team_warps(c);
}
SLUICE_HD constexpr int stage_k_tiles(const KernelConfig& c) {
  return c.schedule == Schedule::plain_wgmma && c.tile.n <= kWaveRows / 2 ? kWaveRows / c.tile.n : 1;
}
/// WGMMAs per stage and step of k.
SLUICE_HD constexpr int plain_waves(const KernelConfig& c) {
  return ceil_div(c.tile.n, kWaveRows);
}
/// Columns of a WGMMA of plain_wgmma: the tokens of all k-tiles in a stage.
SLUICE_HD constexpr int stage_columns(const KernelConfig& c) {
  return stage_k_tiles(c) * c.tile.m;
}
SLUICE_HD constexpr WarpTile plain_tile(const KernelConfig& c) {
  const int beside = team_warps(c) / stage_k_tiles(c);
  return {.rows = c.tile.n,
          .columns = c.tile.m,
          .used = by_slots(c) ? 1 : 0,
          .warps = c.warps / beside,
          .beside = beside,
          .parts = c.cluster.k};
}
/// Columns of the tile in different blocks of B, each with a block scale: those of the gate, and of "up".
SLUICE_HD constexpr int plain_scale_parts(const KernelConfig& c) {
  return c.epilogue.gated ? 2 : 1;
}
/// Block scales of a stage, behind its rows: one per row of A, then one per part of the columns. A stage is
/// whole lines of 128 bytes: copies into another took 3 to 5 us longer of a product of 30 us.
SLUICE_HD constexpr int plain_scales_offset(const KernelConfig& c) {
  return stage_k_tiles(c) * (c.tile.n + c.tile.m) * kPlainRowBytes;
}
SLUICE_HD constexpr int plain_stage_bytes(const KernelConfig& c) {
  const int scales = is_block_scaled(c.epilogue) ? 4 * (c.tile.m + plain_scale_parts(c)) : 0;
  return plain_scales_offset(c) + round_up(scales, kPlainRowBytes);
}
/// Bytes of each row of B that are in a CTA's rings at the PDL wait: all stages but the last of each ring.
SLUICE_HD constexpr int plain_early_row_bytes(const KernelConfig& c) {
  return (c.stages - 1) * teams(c) * stage_k_tiles(c) * kPlainRowBytes;
}
/// Bytes of the rings, including the bytes past them that the last WGMMA of the last stage reads.
SLUICE_HD constexpr int plain_ring_bytes(const KernelConfig& c) {
  const int read = c.schedule == Schedule::plain_wgmma ? kWaveRows * plain_waves(c) * kPlainRowBytes : 0;
  return teams(c) * c.stages * plain_stage_bytes(c) + max(0, read - plain_stage_bytes(c));
}
/// Offset of sums that arrive from the cluster. They follow the rings, and also the CTA's own sums, which
/// overlay the rings.
SLUICE_HD constexpr int plain_incoming_offset(const KernelConfig& c) {
  return max(plain_ring_bytes(c), warp_sums_bytes(plain_tile(c)));
}
SLUICE_HD constexpr int plain_smem_bytes(const KernelConfig& c) {
  return plain_incoming_offset(c) + incoming_sums_bytes(plain_tile(c));
}
/// Accumulator registers per thread with plain_wgmma.
SLUICE_HD constexpr int plain_sums(const KernelConfig& c) {
  return plain_waves(c) * stage_columns(c) / 2;
}
/// Threads per SM for which there are enough registers: 128 per thread, or 255 with more than 64 sums.
SLUICE_HD constexpr int plain_threads(const KernelConfig& c) {
  return c.schedule == Schedule::plain_wgmma && plain_sums(c) > 64 ? 256 : 512;
}
/// CTAs that fit on an SM, by shared memory and registers.
SLUICE_HD constexpr int plain_ctas(const KernelConfig& c) {
  return max(1, min(min(kSmemOfSm / (plain_smem_bytes(c) + kSmemOfCta), plain_threads(c) / (32 * c.warps)),
                    kMaxPlainCtas));
}

/// tile.n of plain_wgmma is a multiple of this. WGMMA's rows are swizzled in groups of eight. Low tiles have
/// several k-tiles below each other, and gated tiles have pairs of eight rows.
SLUICE_HD constexpr int plain_width_unit(int width, bool gated) {
  return width > kWaveRows / 2 && !gated ? 8 : 16;
}

SLUICE_HD constexpr bool is_plain_width(int width, bool gated) {
  return width >= 16 && width <= 256 && width % plain_width_unit(width, gated) == 0;
}

/// The rule that a plain config breaks, as text; nullptr if it is valid.
SLUICE_HD constexpr const char* validate_plain(const KernelConfig& c) {
  if (c.a_major != Major::k || c.b_major != Major::k) return "plain needs K-major operands";
  if (c.schedule == Schedule::plain) {
    if (c.tile.m != 8 && c.tile.m != 16 && c.tile.m != 32 && c.tile.m != 64)
      return "plain needs tile.m of 8, 16, 32 or 64 rows of A";
    if (c.tile.n != 16 && c.tile.n != 32 && c.tile.n != 64 && c.tile.n != 128)
      return "plain needs tile.n of 16, 32, 64 or 128";
    if (c.tile.m * c.tile.n > 64 * 64) return "plain has registers for at most 64 x 64 sums";
    if (is_fp8(c.a) && c.tile.m * c.tile.n > 64 * 32)
      return "plain has registers for 64 x 32 sums of fp8, which needs some to become fp16";
    if (c.tile.n == 128 && c.tile.m > 16)
      return "plain has registers for 128 rows of B with up to 16 of A: fp8 needs some to become fp16";
  } else {
    if (!is_plain_width(c.tile.n, c.epilogue.gated))
      return "plain_wgmma needs tile.n to be a multiple of 16 in 16..256, or of 8 above 32 without a gate";
    if (c.tile.m != 8 && (c.tile.m < 16 || c.tile.m > 128 || c.tile.m % 16 != 0))
      return "plain_wgmma needs tile.m of 8 rows of A, or a multiple of 16 in 16..128";
    if (plain_sums(c) > (c.warps <= 8 ? 128 : 64))
      return "plain_wgmma has registers for 128 sums a thread, for 64 of 16 warps: fewer rows of A or of B";
  }
  if (c.tile.k != k_block(c.a)) return "tile.k must be one 128-byte row: 64 for 16-bit inputs, 128 for fp8";
  if (c.warps != 4 && c.warps != 8 && c.warps != 16) return "plain needs 4, 8 or 16 warps";
  if (c.stages < 2 || c.stages > 16) return "stages must be in 2..16";
  if (c.cluster.m != 1 || c.cluster.n != 1) return "plain has clusters along k only";
  if (c.cluster.k != 1 && c.cluster.k != 2 && c.cluster.k != 4 && c.cluster.k != 8)
    return "cluster.k must be 1, 2, 4 or 8";
  if (is_block_scaled(c.epilogue) && c.schedule != Schedule::plain)
    return "plain_wgmma has no block scales: take Schedule::plain";
  if (is_block_scaled(c.epilogue) && c.tile.m * c.tile.n > 64 * 16)
    return "plain has registers for 64 x 16 sums with block scales, beside those of one block";
  if (by_slots(c) && c.tile.m != 8) return "groups by slots need tile.m of 8, of which one row is used";
  if (by_slots(c) && c.tile.n / 4 % c.cluster.k != 0)
    return "groups by slots need four of the tile's columns for each CTA of the cluster";
  if (c.promotes && c.schedule == Schedule::plain)
    return "plain keeps all sums in fp32: promotes says nothing there";
  if (c.promotes) return "plain_wgmma does not promote: take Schedule::plain, whose sums are all in fp32";
  if (c.store != StorePath::direct) return "plain stores direct";
  if (c.combine != Combine::none) return "plain splits k inside a cluster only";
  if (plain_smem_bytes(c) > kMaxSmemBytes) return "the rings need more than 227 KB of shared memory";
  return nullptr;
}

}  // namespace sluice
