// SPDX-License-Identifier: Apache-2.0
// What follows from a config of Schedule::plain (kernels/plain.cuh): few rows of A ("tokens"), both operands
// K-major, no TMA. B's rows are the tensor core's rows there, A's its columns. A CTA has one tile of
// tile.m tokens x tile.n rows of B; its warps take 128-byte k-tiles in turn, each through a ring of its own.
#pragma once

#include <sluice/spec/config.h>
#include <sluice/spec/warp_sums.h>

namespace sluice {

inline constexpr int kPlainRowBytes = 128;  // of k, in a stage
inline constexpr int kMaxPlainCtas = 3;

SLUICE_HD constexpr WarpTile plain_tile(const KernelConfig& c) {
  return {.rows = c.tile.n, .columns = c.tile.m, .warps = c.warps, .parts = c.cluster.k};
}
SLUICE_HD constexpr int plain_stage_bytes(const KernelConfig& c) {
  return (c.tile.n + c.tile.m) * kPlainRowBytes;
}
/// That a warp fills before it waits or multiplies: the last one is free for the next copy.
SLUICE_HD constexpr int plain_early_stages(const KernelConfig& c) {
  return c.stages - 1;
}
/// Where sums from the cluster arrive: behind the rings and the CTA's own sums, which lie over the rings.
SLUICE_HD constexpr int plain_incoming_offset(const KernelConfig& c) {
  return max(c.warps * c.stages * plain_stage_bytes(c), warp_sums_bytes(plain_tile(c)));
}
SLUICE_HD constexpr int plain_smem_bytes(const KernelConfig& c) {
  return plain_incoming_offset(c) + incoming_sums_bytes(plain_tile(c));
}
/// CTAs that share an SM: what shared memory and registers (128 a thread at least) allow.
SLUICE_HD constexpr int plain_ctas(const KernelConfig& c) {
  return max(1, min(min(kSmemOfSm / (plain_smem_bytes(c) + 1024), 512 / (32 * c.warps)), kMaxPlainCtas));
}

/// nullptr, or the rule that a plain config breaks, in words.
SLUICE_HD constexpr const char* validate_plain(const KernelConfig& c) {
  if (c.a_major != Major::k || c.b_major != Major::k) return "plain needs K-major operands";
  if (c.tile.m != 8 && c.tile.m != 16 && c.tile.m != 32 && c.tile.m != 64)
    return "plain needs tile.m of 8, 16, 32 or 64 rows of A";
  if (c.tile.n != 16 && c.tile.n != 32 && c.tile.n != 64 && c.tile.n != 128)
    return "plain needs tile.n of 16, 32, 64 or 128";
  if (c.tile.m * c.tile.n > 64 * 64) return "plain has registers for at most 64 x 64 sums";
  if (c.tile.n == 128 && c.tile.m > 16)
    return "plain has registers for 128 rows of B with up to 16 of A: fp8 needs some to become fp16";
  if (c.tile.k != k_block(c.a)) return "tile.k must be one 128-byte row: 64 for 16-bit inputs, 128 for fp8";
  if (c.warps != 4 && c.warps != 8 && c.warps != 16) return "plain needs 4, 8 or 16 warps";
  if (c.stages < 2 || c.stages > 16) return "stages must be in 2..16";
  if (c.cluster.m != 1 || c.cluster.n != 1) return "plain has clusters along k only";
  if (c.cluster.k != 1 && c.cluster.k != 2 && c.cluster.k != 4 && c.cluster.k != 8)
    return "cluster.k must be 1, 2, 4 or 8";
  if (is_block_scaled(c.epilogue)) return "plain has no block scales";
  if (c.promotes) return "plain keeps all sums in fp32: promotes says nothing there";
  if (c.store != StorePath::direct) return "plain stores direct";
  if (c.combine != Combine::none) return "plain splits k inside a cluster only";
  if (plain_smem_bytes(c) > kMaxSmemBytes) return "the rings need more than 227 KB of shared memory";
  return nullptr;
}

}  // namespace sluice
