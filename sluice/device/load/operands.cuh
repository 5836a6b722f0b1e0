// SPDX-License-Identifier: Apache-2.0
// The loaders of a kernel's operands. A loader has
//   State begin(params, slice, tile)                                    once per tile
//   load(params, State&, slice index, destination, barrier, k_tile)     once per k-tile, in order
// Each loader keeps its own position in State, because weights may be loaded ahead of the other operand.
#pragma once

#include <sluice/device/load/gathered.cuh>
#include <sluice/device/load/grouped.cuh>
#include <sluice/device/load/strided.cuh>
#include <sluice/device/load/tma_tile.cuh>

namespace sluice {

/// A matrix operand, loaded by TMA.
template <KernelConfig kConfig, bool kIsA, Load kLoad = kIsA ? kConfig.load_a : kConfig.load_b>
struct MatrixOperand {
  using Matrices =
      TmaTile<kIsA ? kConfig.a_major : kConfig.b_major, kIsA ? kConfig.tile.m : kConfig.tile.n,
              kConfig.tile.k, kIsA ? kConfig.cluster.n : kConfig.cluster.m, !kIsA && kConfig.epilogue.gated>;
  using State = TileLoad;

  static SLUICE_DEVICE State begin(const GemmParams& params, const MulticastSlice& slice, const Tile& tile) {
    if constexpr (kIsA)
      return Matrices::begin(params.map_a, params.map_a_tail, slice, params.m, tile.m_offset, tile.batch);
    else
      return Matrices::begin(params.map_b, params.map_b_tail, slice, params.n, tile.n_offset, tile.batch);
  }
  static SLUICE_DEVICE void load(const GemmParams&, const State& state, int index, u32 destination,
                                 u32 barrier, int k_tile) {
    Matrices::load(state, index, destination, barrier, k_tile * kConfig.tile.k);
  }
};

/// An operand that the warps of StridedLoader copy into the stages. The load thread does nothing for it.
template <KernelConfig kConfig, bool kIsA>
struct MatrixOperand<kConfig, kIsA, Load::strided> {
  using State = TileLoad;

  static SLUICE_DEVICE State begin(const GemmParams&, const MulticastSlice&, const Tile&) { return {}; }
  static SLUICE_DEVICE void load(const GemmParams&, const State&, int, u32, u32, int) {}
};

/// An operand with groups along k: a k-tile begins where its group does, and the last one's rows may be those
/// of the next group (Machine::clear_rest). `Operand`: how it is loaded without groups.
template <KernelConfig kConfig, class Operand>
struct SummedRows {
  struct State : TileLoad {
    int k_begin;
  };

  static SLUICE_DEVICE State begin(const GemmParams& params, const MulticastSlice& slice, Tile tile) {
    tile.batch = 0;
    return {Operand::begin(params, slice, tile), tile.k_begin};
  }
  static SLUICE_DEVICE void load(const GemmParams&, const State& state, int index, u32 destination,
                                 u32 barrier, int k_tile) {
    Operand::Matrices::load(state, index, destination, barrier, state.k_begin + k_tile * kConfig.tile.k);
  }
};

template <KernelConfig kConfig, ConvOp kOp>
struct LoadersOf {
  using A = Im2colRows<kConfig>;
  using B = FilterTaps<kConfig>;
};
template <KernelConfig kConfig, GroupKind kGroups = kConfig.groups.kind>
struct MatrixLoaders {
  using A = GroupedRows<kConfig>;
  using B = MatrixOperand<kConfig, false>;
};
template <KernelConfig kConfig>
struct MatrixLoaders<kConfig, GroupKind::none> {
  using A = MatrixOperand<kConfig, true>;
  using B = MatrixOperand<kConfig, false>;
};
template <KernelConfig kConfig>
struct MatrixLoaders<kConfig, GroupKind::along_k> {
  using A = SummedRows<kConfig, MatrixOperand<kConfig, true>>;
  using B = SummedRows<kConfig, MatrixOperand<kConfig, false>>;
};

template <KernelConfig kConfig>
struct LoadersOf<kConfig, ConvOp::none> : MatrixLoaders<kConfig> {};
template <KernelConfig kConfig>
struct LoadersOf<kConfig, ConvOp::wgrad> {
  using A = MatrixOperand<kConfig, true>;
  using B = Im2colColumns<kConfig>;
};

}  // namespace sluice
