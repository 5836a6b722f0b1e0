// SPDX-License-Identifier: Apache-2.0
// A kernel configuration: a value on the host, a template parameter in the kernel. One config is one cubin.
// Everything derived from it (bytes, counts, registers) is a constexpr function here or in smem_layout.h,
// called by the host at run time and by the kernel at compile time.
#pragma once

#include <sluice/spec/overlap.h>
#include <sluice/spec/problem.h>
#include <sluice/spec/smem_room.h>

namespace sluice {

/// ping_pong: two math warpgroups on two tiles, turn about. cooperative: both on one tile, half of its rows
/// each. plain, plain_wgmma: no roles, no TMA; warps (mma.sync), or warpgroups (WGMMA), that load and
/// multiply k-tiles of their own, for few rows of A (spec/plain.h, kernels/plain.cuh). What this file and
/// smem_layout.h say of math groups is of the first two.
enum class Schedule : u8 { ping_pong, cooperative, plain, plain_wgmma };
SLUICE_HD constexpr bool is_plain(Schedule schedule) {
  return schedule == Schedule::plain || schedule == Schedule::plain_wgmma;
}
/// How the sums of clusters that share a tile come together (spec/work_split.h). none: no tile is shared.
/// last_arriver: all write theirs to global memory, and the last one adds them up. separate: all write
/// theirs, and a kernel of its own, on all SMs, adds them up (kernels/sum_parts.cuh). add (Update::add only):
/// each adds its own to D, and they never meet; in which order decides about the last bits.
enum class Combine : u8 { none, last_arriver, separate, add };
/// tma: through shared memory and the copy engine. direct: per element, for a D that TMA cannot address.
enum class StorePath : u8 { tma, direct };

struct TileShape {
  int m = 128;
  int n = 128;
  int k = 64;  // elements; always one 128-byte row of the inputs

  constexpr bool operator==(const TileShape&) const = default;
};

/// CTAs of a cluster along m (they share B tiles by multicast) and along n (they share A tiles); or along k:
/// they work on one tile, a part of its k-tiles each, and exchange sums through each other's shared memory.
struct ClusterShape {
  int m = 1;
  int n = 1;
  int k = 1;

  constexpr bool operator==(const ClusterShape&) const = default;
};

struct KernelConfig {
  Schedule schedule = Schedule::cooperative;
  TileShape tile{};
  int stages = 4;
  ClusterShape cluster{};
  DType a = DType::bf16;
  DType b = DType::bf16;
  DType d = DType::bf16;
  Major a_major = Major::k;
  Major b_major = Major::k;
  Major d_major = Major::k;  // mn: operands are swapped, and the tile is stored transposed (product_of)
  bool promotes = false;  // the tensor core sums one k-tile (128 of k) at a time, and fp32 adds add up those
  StorePath store = StorePath::tma;
  Combine combine = Combine::none;
  Epilogue epilogue{};
  int warps = 0;  // of plain schedules
  Overlap overlap{};

  constexpr bool operator==(const KernelConfig&) const = default;
};

inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kMathGroups = 2;
inline constexpr int kMathWarps = 4;   // warps of one math warpgroup; each signals once when it frees a stage
inline constexpr int kScaleWarps = 2;  // of the load warpgroup: they bring block scales
inline constexpr int kThreads =
    (1 + kMathGroups) * kWarpgroupThreads;    // warpgroup 0 loads, 1 and 2 do the math
inline constexpr int kWaveRows = 64;          // rows of one WGMMA
inline constexpr int kLaunchRegisters = 168;  // per thread of a 384-thread CTA: 65,536 / 384, in steps of 8

inline constexpr int kMaxClusterCtas = 8;  // that every Hopper GPU can place
SLUICE_HD constexpr int cluster_size(const KernelConfig& c) {
  return c.cluster.m * c.cluster.n * c.cluster.k;
}
/// Are the rows of a tile rows of the problem's B, its columns rows of A? Tiles are 64, 128 or 256 rows high,
/// and any multiple of 8 columns wide: as columns 300 tokens fill two tiles of 152, as rows they would leave
/// a third tile of 128 mostly empty.
SLUICE_HD constexpr bool is_swapped(const KernelConfig& c) {
  return c.d_major == Major::mn;
}
/// What a kernel multiplies for `p`: its A and B, m and n are those of kernel, tiles and work split. `p`: a
/// caller's, with its strides filled in.
SLUICE_HD constexpr Problem product_of(const Problem& p, const KernelConfig& c) {
  return is_swapped(c) ? transposed(p) : p;
}
/// Of a CTA.
SLUICE_HD constexpr int threads_of(const KernelConfig& c) {
  return is_plain(c.schedule) ? 32 * c.warps : kThreads;
}
/// Do loads go to several CTAs?
SLUICE_HD constexpr bool multicasts(const KernelConfig& c) {
  return c.cluster.m * c.cluster.n > 1;
}
/// Columns of the tile that one CTA stores: with a cluster along k each has its share of the columns in the
/// end.
SLUICE_HD constexpr int own_columns(const KernelConfig& c) {
  return c.tile.n / c.cluster.k;
}
/// Columns of D that it stores.
SLUICE_HD constexpr int own_outputs(const KernelConfig& c) {
  return outputs_of(c.epilogue, own_columns(c));
}
/// Rows of B that are never parted in a tile.
SLUICE_HD constexpr int row_group(const KernelConfig& c) {
  return c.epilogue.gated ? kGatedGroup : 8;
}
/// Rows of the CTA tile that one math warpgroup works on.
SLUICE_HD constexpr int group_rows(const KernelConfig& c) {
  return c.schedule == Schedule::ping_pong ? c.tile.m : c.tile.m / kMathGroups;
}
/// 64-row WGMMAs that one math warpgroup issues for each step of k.
SLUICE_HD constexpr int waves(const KernelConfig& c) {
  return group_rows(c) / kWaveRows;
}
/// Sums that fit a math thread's registers beside addresses and the operands of a light epilogue.
inline constexpr int kMaxAccumulatorRegisters = 208;
/// Final sums of a math thread, in fp32 registers.
SLUICE_HD constexpr int sum_registers(const KernelConfig& c) {
  return waves(c) * c.tile.n / 2;
}
/// With promotion the products of a k-tile go into partial sums first. Where there is no room for as many of
/// these as there are final sums, a math warpgroup works in two units, one after the other: its two 64-row
/// waves, or the halves of the columns of a single one.
SLUICE_HD constexpr int units(const KernelConfig& c) {
  return c.promotes && 2 * sum_registers(c) > kMaxAccumulatorRegisters ? 2 : 1;
}
SLUICE_HD constexpr int unit_waves(const KernelConfig& c) {
  return ceil_div(waves(c), units(c));
}
/// Columns of one WGMMA.
SLUICE_HD constexpr int unit_columns(const KernelConfig& c) {
  return waves(c) == 1 ? c.tile.n / units(c) : c.tile.n;
}
/// Parts of a tile that are combined on their own: a cooperative math group's rows.
SLUICE_HD constexpr int combined_parts(const KernelConfig& c) {
  return c.schedule == Schedule::cooperative ? kMathGroups : 1;
}
/// Do the clusters that share a tile meet in the workspace?
SLUICE_HD constexpr bool uses_workspace(const KernelConfig& c) {
  return c.combine != Combine::none && c.combine != Combine::add;
}
/// fp32 registers a math thread holds: final sums, and with promotion the partial ones of a unit.
SLUICE_HD constexpr int accumulator_registers(const KernelConfig& c) {
  return sum_registers(c) + (c.promotes ? sum_registers(c) / units(c) : 0);
}
/// Math warpgroups that read one stage before it is free.
SLUICE_HD constexpr int stage_readers(const KernelConfig& c) {
  return c.schedule == Schedule::ping_pong ? 1 : kMathGroups;
}

/// setmaxnreg values; load + 2 x math <= 3 x kLaunchRegisters. A load warpgroup of 24 serves the widest
/// accumulators; the warps that bring block scales need 40.
SLUICE_HD constexpr int load_registers(const KernelConfig& c) {
  return accumulator_registers(c) > 176 && !is_block_scaled(c.epilogue) ? 24 : 40;
}
SLUICE_HD constexpr int math_registers(const KernelConfig& c) {
  return accumulator_registers(c) > 176 && !is_block_scaled(c.epilogue) ? 240 : 232;
}

/// Are the loops over what a tile stores unrolled? Those of light epilogues, and of SwiGLU on the tiles of
/// few rows, where nothing hides the last one's and code and registers are few.
SLUICE_HD constexpr bool unrolls_stores(const KernelConfig& c) {
  const Epilogue& e = c.epilogue;
  const bool small =
      e.gated && e.activation == Activation::silu && e.bias == Bias::none && sum_registers(c) <= 64;
  return is_light(e) || small;
}

SLUICE_HD constexpr const char* name_of(Schedule schedule) {
  switch (schedule) {
    case Schedule::ping_pong: return "ping_pong";
    case Schedule::cooperative: return "cooperative";
    case Schedule::plain: return "plain";
    case Schedule::plain_wgmma: return "plain_wgmma";
  }
  return "?";
}
SLUICE_HD constexpr const char* name_of(Combine combine) {
  switch (combine) {
    case Combine::none: return "none";
    case Combine::last_arriver: return "last_arriver";
    case Combine::separate: return "separate";
    case Combine::add: return "add";
  }
  return "?";
}
SLUICE_HD constexpr const char* name_of(StorePath store) {
  return store == StorePath::tma ? "tma" : "direct";
}

}  // namespace sluice
