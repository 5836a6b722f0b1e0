// SPDX-License-Identifier: Apache-2.0
// A kernel configuration: a value on the host, a template parameter in the kernel. One config is one cubin;
// with Combine::separate two. Everything derived from it (bytes, counts, registers) is a constexpr function
// of spec, called by the host at run time and by the kernel at compile time.
#pragma once

#include <sluice/spec/overlap.h>
#include <sluice/spec/problem.h>
#include <sluice/spec/smem_room.h>

namespace sluice {

/// ping_pong: two math warpgroups take turns, each on a tile of its own. cooperative: both share one tile,
/// half of its rows each. plain, plain_wgmma: no roles, no TMA; each warp (mma.sync) or warpgroup (WGMMA)
/// loads and multiplies k-tiles of its own, for few rows of A (spec/plain.h, kernels/plain.cuh). Math groups,
/// here and in smem_layout.h, exist in the first two schedules only.
enum class Schedule : u8 { ping_pong, cooperative, plain, plain_wgmma };
SLUICE_HD constexpr bool is_plain(Schedule schedule) {
  return schedule == Schedule::plain || schedule == Schedule::plain_wgmma;
}
/// How the sums of clusters that share a tile come together (spec/work_split.h). none: no tile is shared.
/// last_arriver: every peer writes its sums to global memory, and the last one to arrive adds them up.
/// separate: every peer writes its sums, and a second kernel on all SMs adds them up (kernels/sum_parts.cuh).
/// add (Update::add only): every peer adds its sums to D; their order decides the last bits.
enum class Combine : u8 { none, last_arriver, separate, add };
/// How an operand comes into the stages. tma: by the copy engine. strided: 16-bit elements at any address and
/// stride, which warps read and write themselves (device/load/strided.cuh).
enum class Load : u8 { tma, strided };
/// tma: through shared memory and the copy engine. direct: per element, for a D that TMA cannot address.
enum class StorePath : u8 { tma, direct };

struct TileShape {
  int m = 128;
  int n = 128;
  int k = 64;  // elements; always one 128-byte row of the inputs

  constexpr bool operator==(const TileShape&) const = default;
};

/// Along m, CTAs share B tiles by multicast; along n, they share A tiles. Along k, they share one tile: each
/// takes a slice of its k-tiles, and they exchange sums through distributed shared memory.
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
  Major d_major = Major::k;  // mn: operands are swapped and the tile is stored transposed (product_of)
  // the tensor core sums one k-tile (128 of k) at a time; fp32 adds collect those sums
  bool promotes = false;
  StorePath store = StorePath::tma;
  Combine combine = Combine::none;
  Epilogue epilogue{};
  int warps = 0;  // plain schedules only
  Overlap overlap{};
  ConvKind conv{};
  Load load_a = Load::tma;
  Load load_b = Load::tma;

  constexpr bool operator==(const KernelConfig&) const = default;
};

inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kMathGroups = 2;
inline constexpr int kMathWarps = 4;   // warps of one math warpgroup; each signals once when it frees a stage
inline constexpr int kScaleWarps = 2;  // warps of the load warpgroup that bring block scales
inline constexpr int kStridedWarps = 3;  // warps of the load warpgroup that bring strided operands
inline constexpr int kThreads =
    (1 + kMathGroups) * kWarpgroupThreads;    // warpgroup 0 loads, 1 and 2 do the math
inline constexpr int kWaveRows = 64;          // rows of one WGMMA
inline constexpr int kLaunchRegisters = 168;  // per thread of a 384-thread CTA: 65,536 / 384, in steps of 8

inline constexpr int kMaxClusterCtas = 8;  // the largest that every Hopper GPU can place
SLUICE_HD constexpr int cluster_size(const KernelConfig& c) {
  return c.cluster.m * c.cluster.n * c.cluster.k;
}
/// True if a tile's rows are rows of B and its columns rows of A. Tiles are 64, 128 or 256 rows high and any
/// multiple of 8 columns wide. As columns, 300 tokens fill two tiles of 152; as rows, they would leave a
/// third tile of 128 mostly empty.
SLUICE_HD constexpr bool is_swapped(const KernelConfig& c) {
  return c.d_major == Major::mn;
}
/// The product that the kernel computes for `p`. Its A, B, m and n are those of the kernel, its tiles and its
/// work split. `p` is a caller's problem with its strides filled in.
SLUICE_HD constexpr Problem product_of(const Problem& p, const KernelConfig& c) {
  return is_swapped(c) ? transposed(p) : p;
}
/// Threads of one CTA.
SLUICE_HD constexpr int threads_of(const KernelConfig& c) {
  return is_plain(c.schedule) ? 32 * c.warps : kThreads;
}
/// True if a load goes to several CTAs.
SLUICE_HD constexpr bool multicasts(const KernelConfig& c) {
  return c.cluster.m * c.cluster.n > 1;
}
/// Columns of the tile that one CTA stores: in a cluster along k, each CTA finishes its own share of them.
SLUICE_HD constexpr int own_columns(const KernelConfig& c) {
  return c.tile.n / c.cluster.k;
}
/// Columns of D that one CTA stores.
SLUICE_HD constexpr int own_outputs(const KernelConfig& c) {
  return outputs_of(c.epilogue, own_columns(c));
}
/// True if an operand comes without TMA.
SLUICE_HD constexpr bool loads_strided(const KernelConfig& c) {
  return c.load_a == Load::strided || c.load_b == Load::strided;
}
/// Rows of B that stay together in a tile: splits fall on multiples of this.
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
/// Passes that a math warpgroup makes over its tile with promotion, where a k-tile's products go into partial
/// sums first. Two, where partial sums for the whole tile do not fit in registers: its two 64-row waves, or
/// both halves of one wave's columns.
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
/// Slices of a tile's sums that are combined separately: one per cooperative math group.
SLUICE_HD constexpr int combined_parts(const KernelConfig& c) {
  return c.schedule == Schedule::cooperative ? kMathGroups : 1;
}
/// True if clusters that share a tile exchange sums through the workspace.
SLUICE_HD constexpr bool uses_workspace(const KernelConfig& c) {
  return c.combine != Combine::none && c.combine != Combine::add;
}
/// fp32 registers of a math thread: final sums, and with promotion the partial sums of one pass.
SLUICE_HD constexpr int accumulator_registers(const KernelConfig& c) {
  return sum_registers(c) + (c.promotes ? sum_registers(c) / units(c) : 0);
}
/// Math warpgroups that read one stage before it is free.
SLUICE_HD constexpr int stage_readers(const KernelConfig& c) {
  return c.schedule == Schedule::ping_pong ? 1 : kMathGroups;
}

/// setmaxnreg values; load + 2 x math <= 3 x kLaunchRegisters. Loaders live with 24 registers beside the
/// widest accumulators; gathering loaders and warps that bring block scales need 40. Warps that bring strided
/// operands hold those that are on their way.
SLUICE_HD constexpr bool has_lean_loader(const KernelConfig& c) {
  return accumulator_registers(c) > 176 && !is_block_scaled(c.epilogue) && c.conv.op == ConvOp::none;
}
SLUICE_HD constexpr int load_registers(const KernelConfig& c) {
  if (loads_strided(c)) return 120;
  return has_lean_loader(c) ? 24 : 40;
}
SLUICE_HD constexpr int math_registers(const KernelConfig& c) {
  if (loads_strided(c)) return 192;
  return has_lean_loader(c) ? 240 : 232;
}

/// True if the store loops of the epilogue are unrolled: in light epilogues, and in SwiGLU on tiles with few
/// sums. There no later tile hides the last store, and code and registers are few.
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
SLUICE_HD constexpr const char* name_of(Load load) {
  return load == Load::tma ? "tma" : "strided";
}
SLUICE_HD constexpr const char* name_of(StorePath store) {
  return store == StorePath::tma ? "tma" : "direct";
}

}  // namespace sluice
