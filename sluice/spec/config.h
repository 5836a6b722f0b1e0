// SPDX-License-Identifier: Apache-2.0
// A kernel configuration: a value on the host, a template parameter in the kernel. One config is one cubin
// (two with Combine::separate). Everything derived from it (bytes, counts, registers) is a constexpr function
// in spec, which the host calls at run time and the kernel at compile time.
#pragma once

#include <sluice/spec/overlap.h>
#include <sluice/spec/problem.h>
#include <sluice/spec/smem_room.h>

namespace sluice {

/// How math groups share work.
/// - ping_pong: two math warpgroups alternate, each on a tile of its own.
/// - cooperative: both share one tile, half of its rows each.
/// - plain, plain_wgmma: for few rows of A, without roles and TMA. Each warp (mma.sync) or warpgroup (WGMMA)
///   loads and multiplies k-tiles of its own (spec/plain.h, kernels/plain.cuh).
/// - narrow, wide, strip: for packed weights, by the number of rows of A (spec/packed_config.h).
/// "Math group", here and in smem_layout.h, refers to the first two schedules only.
enum class Schedule : u8 { ping_pong, cooperative, plain, plain_wgmma, narrow, wide, strip };
SLUICE_HD constexpr bool is_plain(Schedule schedule) {
  return schedule == Schedule::plain || schedule == Schedule::plain_wgmma;
}
/// True if the kernel decodes packed weights.
SLUICE_HD constexpr bool decodes(Schedule schedule) {
  return schedule == Schedule::narrow || schedule == Schedule::wide || schedule == Schedule::strip;
}
/// How partial sums of clusters that share a tile are combined (spec/work_split.h).
/// - none: no tile is shared.
/// - last_arriver: every peer writes its sums to global memory, and the last one to arrive adds them up.
/// - separate: every peer writes its sums, and a second kernel on all SMs adds them up
///   (kernels/sum_parts.cuh).
/// - add (Update::add only): every peer adds its sums to D; the last bits depend on their order.
enum class Combine : u8 { none, last_arriver, separate, add };
/// How an operand is loaded into the stages. tma: by the copy engine. strided: by warps, for 16-bit elements
/// at any address and stride (device/load/strided.cuh).
enum class Load : u8 { tma, strided };
/// How D is stored. tma: through shared memory, by the copy engine. direct: from registers, for a D that TMA
/// cannot address.
enum class StorePath : u8 { tma, direct };

struct TileShape {
  int m = 128;
  int n = 128;
  int k = 64;  // elements: one 128-byte row of the inputs; packed weights: 128

  constexpr bool operator==(const TileShape&) const = default;
};

/// CTAs along m share B tiles by multicast; CTAs along n share A tiles. CTAs along k share one tile: each
/// multiplies a slice of its k-tiles, and they exchange partial sums through distributed shared memory.
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
  // the tensor core accumulates only one k-tile (128 of k) at a time, and fp32 additions accumulate these
  // sums
  bool promotes = false;
  StorePath store = StorePath::tma;
  Combine combine = Combine::none;
  Epilogue epilogue{};
  int warps = 0;  // warps per CTA; plain schedules and narrow only
  Overlap overlap{};
  ConvKind conv{};
  Load load_a = Load::tma;
  Load load_b = Load::tma;
  GroupConfig groups{};
  bool scale_a_columns = false;  // block scales of A are stored by columns (Problem::scale_a_ld)
  // Packed weights. The tile's rows are rows of A, its columns rows of W.
  WeightFormat packed = kNotPacked;  // B
  bool norm_a = false;
  int ctas = 0;       // narrow: CTAs that share an SM
  int held_rows = 0;  // narrow: rows of A that are kept in shared memory; 0: all of the tile
  int k_groups = 0;   // strip: warpgroups that share k
  int w_stages = 0;   // wide: stages of B's ring

  constexpr bool operator==(const KernelConfig&) const = default;
};

inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kMathGroups = 2;
inline constexpr int kMathWarps = 4;     // per math warpgroup; each signals once when it releases a stage
inline constexpr int kScaleWarps = 2;    // warps of the load warpgroup that load block scales
inline constexpr int kStridedWarps = 3;  // warps of the load warpgroup that load strided operands
inline constexpr int kThreads =
    (1 + kMathGroups) * kWarpgroupThreads;    // warpgroup 0 loads, 1 and 2 do the math
inline constexpr int kWaveRows = 64;          // rows of one WGMMA
inline constexpr int kLaunchRegisters = 168;  // per thread of a 384-thread CTA: 65,536 / 384, in steps of 8

inline constexpr int kMaxClusterCtas = 8;  // the largest size that every Hopper GPU can place
SLUICE_HD constexpr int cluster_size(const KernelConfig& c) {
  return c.cluster.m * c.cluster.n * c.cluster.k;
}
/// True if the kernel multiplies B by A, so that a tile's rows are rows of B and its columns rows of A. Tiles
/// are 64, 128 or 256 rows high and any multiple of 8 columns wide. As columns, 300 tokens fill two tiles of
/// 152; as rows, they would leave a third tile of 128 mostly empty.
SLUICE_HD constexpr bool is_swapped(const KernelConfig& c) {
  return c.d_major == Major::mn;
}
/// The product that the kernel computes for `p`; its A, B, m and n are those of the kernel, its tiles and its
/// work split. `p`: the caller's problem, with its strides set.
SLUICE_HD constexpr Problem product_of(const Problem& p, const KernelConfig& c) {
  return is_swapped(c) ? transposed(p) : p;
}
/// Threads per CTA; not for kernels of packed weights, whose configs have their own.
SLUICE_HD constexpr int threads_of(const KernelConfig& c) {
  return is_plain(c.schedule) ? 32 * c.warps : kThreads;
}
/// True if a load is sent to several CTAs.
SLUICE_HD constexpr bool multicasts(const KernelConfig& c) {
  return c.cluster.m * c.cluster.n > 1;
}
/// As the functions of a problem (spec/problem.h). reads_table: the kernel reads a table of groups.
/// has_groups: its list of tiles stands there; or by_slots, the group of each tile, which has one row.
/// sums_groups: the part of k of each matrix stands there.
SLUICE_HD constexpr bool reads_table(const KernelConfig& c) {
  return c.groups.kind != GroupKind::none;
}
SLUICE_HD constexpr bool has_groups(const KernelConfig& c) {
  return groups_rows(c.groups.kind);
}
SLUICE_HD constexpr bool sums_groups(const KernelConfig& c) {
  return c.groups.kind == GroupKind::along_k;
}
SLUICE_HD constexpr bool by_slots(const KernelConfig& c) {
  return c.groups.kind == GroupKind::slots;
}
/// Rows of a tile in the direction of groups.
SLUICE_HD constexpr int group_tile_extent(const KernelConfig& c) {
  return sums_groups(c) ? c.tile.k : c.tile.m;
}
/// Returns whether a math group may have no row of a tile, whose products it then leaves out.
SLUICE_HD constexpr bool may_lack_rows(const KernelConfig& c) {
  return has_groups(c) && c.schedule == Schedule::cooperative;
}
/// True if the kernel reads the problem's table, and has room for its groups.
SLUICE_HD constexpr bool reads_groups_of(const KernelConfig& c, const Problem& p) {
  return c.groups.kind == p.groups.kind && (!reads_table(p) || p.batch <= c.groups.most);
}
/// Columns of the tile that one CTA stores: in a cluster along k, each CTA stores a share of them.
SLUICE_HD constexpr int own_columns(const KernelConfig& c) {
  return c.tile.n / c.cluster.k;
}
/// Columns of D that one CTA stores; half of own_columns() if gated.
SLUICE_HD constexpr int own_outputs(const KernelConfig& c) {
  return outputs_of(c.epilogue, own_columns(c));
}
/// True if an operand is loaded without TMA.
SLUICE_HD constexpr bool loads_strided(const KernelConfig& c) {
  return c.load_a == Load::strided || c.load_b == Load::strided;
}
/// Rows of B that stay together in a tile: tiles are cut at multiples of this.
SLUICE_HD constexpr int row_group(const KernelConfig& c) {
  return c.epilogue.gated ? kGatedGroup : 8;
}
/// Rows of the CTA tile per math warpgroup.
SLUICE_HD constexpr int group_rows(const KernelConfig& c) {
  return c.schedule == Schedule::ping_pong ? c.tile.m : c.tile.m / kMathGroups;
}
/// 64-row WGMMAs per math warpgroup and step of k.
SLUICE_HD constexpr int waves(const KernelConfig& c) {
  return group_rows(c) / kWaveRows;
}
/// Accumulator registers that a math thread can have next to addresses and the operands of a light epilogue.
inline constexpr int kMaxAccumulatorRegisters = 208;
/// Accumulator registers of a math thread, without the partial sums of promotion.
SLUICE_HD constexpr int sum_registers(const KernelConfig& c) {
  return waves(c) * c.tile.n / 2;
}
/// Passes of a math warpgroup over its tile. With promotion, a k-tile's products first go into partial sums.
/// If partial sums of the whole tile do not fit in registers, there are two passes: over the two 64-row
/// waves, or over the two halves of one wave's columns.
SLUICE_HD constexpr int units(const KernelConfig& c) {
  return c.promotes && 2 * sum_registers(c) > kMaxAccumulatorRegisters ? 2 : 1;
}
SLUICE_HD constexpr int unit_waves(const KernelConfig& c) {
  return ceil_div(waves(c), units(c));
}
/// Columns per WGMMA.
SLUICE_HD constexpr int unit_columns(const KernelConfig& c) {
  return waves(c) == 1 ? c.tile.n / units(c) : c.tile.n;
}
/// Parts of a tile whose sums are combined separately: one per cooperative math group.
SLUICE_HD constexpr int combined_parts(const KernelConfig& c) {
  return c.schedule == Schedule::cooperative ? kMathGroups : 1;
}
/// True if clusters that share a tile combine sums through the workspace.
SLUICE_HD constexpr bool uses_workspace(const KernelConfig& c) {
  return c.combine != Combine::none && c.combine != Combine::add;
}
/// fp32 registers of a math thread: accumulators and, with promotion, the partial sums of one pass.
SLUICE_HD constexpr int accumulator_registers(const KernelConfig& c) {
  return sum_registers(c) + (c.promotes ? sum_registers(c) / units(c) : 0);
}
/// Math warpgroups that must read a stage before it is released.
SLUICE_HD constexpr int stage_readers(const KernelConfig& c) {
  return c.schedule == Schedule::ping_pong ? 1 : kMathGroups;
}

/// setmaxnreg values; load + 2 x math <= 3 x kLaunchRegisters. With the largest accumulators, load warps have
/// only 24 registers. Loads of gathered operands, of groups and of block scales need 40. Warps that load
/// strided operands need registers for the data in flight.
SLUICE_HD constexpr bool has_lean_loader(const KernelConfig& c) {
  return accumulator_registers(c) > 176 && !is_block_scaled(c.epilogue) && c.conv.op == ConvOp::none &&
         !reads_table(c);
}
SLUICE_HD constexpr int load_registers(const KernelConfig& c) {
  if (loads_strided(c)) return 120;
  return has_lean_loader(c) ? 24 : 40;
}
SLUICE_HD constexpr int math_registers(const KernelConfig& c) {
  if (loads_strided(c)) return 192;
  return has_lean_loader(c) ? 240 : 232;
}

/// True if the store loops of the epilogue are unrolled. They are for light epilogues, and for SwiGLU on
/// tiles with small accumulators. There no later tile hides the last store, and code and registers are few.
/// Results that wait in registers for their scale need indices that are constants.
SLUICE_HD constexpr bool unrolls_stores(const KernelConfig& c) {
  const Epilogue& e = c.epilogue;
  const bool small = e.gated && divides(e.activation) && e.bias == Bias::none && sum_registers(c) <= 64;
  return is_light(e) || small || writes_scales(e);
}

SLUICE_HD constexpr const char* name_of(Schedule schedule) {
  switch (schedule) {
    case Schedule::ping_pong: return "ping_pong";
    case Schedule::cooperative: return "cooperative";
    case Schedule::plain: return "plain";
    case Schedule::plain_wgmma: return "plain_wgmma";
    case Schedule::narrow: return "narrow";
    case Schedule::wide: return "wide";
    case Schedule::strip: return "strip";
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
