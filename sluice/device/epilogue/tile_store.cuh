// SPDX-License-Identifier: Apache-2.0
// Stores the accumulators of one math group as values of D: chunk by chunk through a store buffer and TMA, or
// directly to memory. The order of waits is in kernels/gemm.cuh.
#pragma once

#include <sluice/spec/work_split.h>
#include <sluice/device/epilogue/direct_store.cuh>
#include <sluice/device/epilogue/epilogue_vectors.cuh>
#include <sluice/device/epilogue/fragment_store.cuh>
#include <sluice/device/epilogue/residual.cuh>
#include <sluice/device/math/quad_scale.cuh>
#include <sluice/device/math/wgmma_ss.cuh>
#include <sluice/device/optional_member.cuh>
#include <sluice/device/row_end.cuh>

namespace sluice {

/// One value for each of a thread's rows, loaded into registers while the tile is multiplied.
template <int kWaves>
struct RowValues {
  float upper[kWaves], lower[kWaves];

  /// `load`: of a row of D. `row`: the thread's first.
  template <class Load>
  SLUICE_DEVICE void read(int row, const Load& load) {
#pragma unroll
    for (int wave = 0; wave < kWaves; ++wave) {
      upper[wave] = load(row + wave * kWaveRows);
      lower[wave] = load(row + wave * kWaveRows + 8);
    }
  }
  /// Selects without indexing, so that the values stay in registers even if the loop over waves is not
  /// unrolled.
  SLUICE_DEVICE void put(int wave, float& of_upper, float& of_lower) const {
#pragma unroll
    for (int i = 0; i < kWaves; ++i)
      if (i == wave) of_upper = upper[i], of_lower = lower[i];
  }
};

/// A thread's part of a row bias and of the factors of rows.
template <KernelConfig kConfig>
struct RowOperands {
  static constexpr bool kBias = kConfig.epilogue.bias == Bias::row;
  static constexpr bool kFactors = kConfig.epilogue.row_factors;
  static constexpr bool kUsed = kBias || kFactors;

  SLUICE_DEVICE void read(const ElementWise<kConfig.epilogue>& ops, int row) {
    if constexpr (kBias) bias.read(row, [&](int r) { return ops.row_bias(r); });
    if constexpr (kFactors) factors.read(row, [&](int r) { return ops.row_factor(given(ops.params), r); });
  }
  SLUICE_DEVICE void put(int wave, RowScales& rows) const {
    if constexpr (kBias) bias.put(wave, rows.upper_bias, rows.lower_bias);
    if constexpr (kFactors) factors.put(wave, rows.upper_factor, rows.lower_factor);
  }

  Optional<kBias, RowValues<waves(kConfig)>> bias;
  Optional<kFactors, RowValues<waves(kConfig)>> factors;

 private:
  static SLUICE_DEVICE const float* given(const GemmParams& params) {
    if constexpr (reads_table(kConfig)) return static_cast<const GroupedParams&>(params).row_factors;
    return static_cast<const FactoredParams&>(params).row_factors;
  }
};

/// A view of the machine's state, created where it is needed.
template <KernelConfig kConfig>
struct TileStore {
  struct GroupAt {  // position of a group of 8 columns of D in the tile
    int wave, column;
  };

  const GemmParams& params;
  const ElementWise<kConfig.epilogue>& ops;
  const Accumulator<waves(kConfig), kConfig.tile.n>& sums;
  EpilogueVectors<kConfig> vectors;
  const RowOperands<kConfig>& rows;
  int group_row;  // the group's first row in the CTA's tile

  /// Writes one chunk of store_columns() columns, from `at` on, to the buffer that D's tensor map describes.
  SLUICE_DEVICE void write_chunk(u32 buffer, const Tile& tile, const GroupAt& at) const {
    constexpr int kGroups = store_columns(kConfig) / 8;
    constexpr int kStep = kGroups % 2 == 0 ? 2 : 1;
    constexpr int kAhead = unrolls_stores(kConfig) ? min(kGroups, kOperandsAhead) : kStep;
    const FragmentStore<kConfig.d, store_row_bytes(kConfig), is_swapped(kConfig)> store{buffer,
                                                                                        vectors.thread};
    if constexpr (kQuantises) {
      static_assert(kGroups == kBlockGroups, "a chunk is a block");
      FragmentPairs block[kGroups];
      quantise(tile, at, block);
#pragma unroll
      for (int i = 0; i < kGroups; i += 2) {
        const FragmentPairs pairs[2] = {block[i], block[i + 1]};
        store.write(i, pairs);
      }
      return;
    }
    const RowScales scales = row_scales(at.wave);
    const auto write = [&](int first) {
      ColumnPair operands[kAhead * kSides];
      Residuals residuals[kResidual ? kAhead : 1];
      if constexpr (kResidual) {
        const auto rows = residual_rows(tile, {at.wave, at.column + first * 8}, 8 * kAhead);
#pragma unroll
        for (int i = 0; i < kAhead; ++i) rows.read(i * 8, residuals[i]);
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) read_columns(at.column + (first + i) * 8, &operands[kSides * i]);
#pragma unroll
      for (int i = 0; i < kAhead; i += kStep) {
        FragmentPairs pairs[kStep];
        epilogue<kStep>(pairs, {at.wave, at.column + (first + i) * 8}, scales, &operands[kSides * i],
                        &residuals[kResidual ? i : 0]);
        store.write(first + i, pairs);
      }
    };
#pragma unroll kStoreUnroll
    for (int group = 0; group < kGroups; group += kAhead) write(group);
  }

  /// Copies the live rows of a chunk from its buffer to D, in place of a store by TMA, which would write
  /// whole boxes. All threads of the group, after the barrier behind write_chunk(). Rows of D are 16-byte
  /// units.
  SLUICE_DEVICE void copy_chunk(u32 buffer, const Tile& tile, const GroupAt& at, int live_rows) const {
    constexpr int kRow = store_row_bytes(kConfig), kUnits = kRow / 16, kElement = bytes_of(kConfig.d);
    const int first_column = first_output(tile) + at.column;
    const int bytes = (outputs_of(kConfig.epilogue, params.n) - first_column) * kElement;  // up to the edge
    const i64 first_row = tile.m_offset + group_row + at.wave * kWaveRows;
    u8* const to = static_cast<u8*>(params.d) + (first_row * params.d_ld + first_column) * kElement;
#pragma unroll 1
    for (int i = vectors.thread; i < live_rows * kUnits; i += kWarpgroupThreads) {
      const int row = i / kUnits, byte = i % kUnits * 16;
      u32 words[4];
      ptx::load_shared_v4(buffer + swizzle<kRow>(row * kRow + byte), words);
      const ptx::Float4 values{__uint_as_float(words[0]), __uint_as_float(words[1]),
                               __uint_as_float(words[2]), __uint_as_float(words[3])};
      if (byte < bytes)
        ptx::store_global(reinterpret_cast<float*>(to + i64{row} * params.d_ld * kElement + byte), values);
    }
  }

  /// Stores the group's whole part of the tile. `live_rows`: rows inside the matrix, from the warp's first
  /// row on.
  SLUICE_DEVICE void store_direct(const Tile& tile, int live_rows) const {
#pragma unroll kStoreUnroll
    for (int wave = 0; wave < waves(kConfig); ++wave) {
      if (live_rows <= wave * kWaveRows) continue;  // with a break the compiler would not unroll the loop
      if constexpr (kQuantises) {
        store_blocks(tile, wave);
        continue;
      }
      const RowScales scales = row_scales(wave);
#pragma unroll kStoreUnroll
      for (int column = 0; column < own_outputs(kConfig); column += 8)
        store_group(tile, {wave, column}, scales);
    }
  }

 private:
  static constexpr bool kResidual = kConfig.epilogue.residual;
  static constexpr bool kGated = kConfig.epilogue.gated;
  static constexpr int kSides = kGated ? 2 : 1;  // columns of the product per column of D
  static constexpr bool kQuantises = writes_scales(kConfig.epilogue);
  // The store loops are unrolled completely or not at all (docs/findings/heavy-epilogues.md).
  static constexpr int kStoreUnroll = unrolls_stores(kConfig) ? 2 * kConfig.tile.n : 1;
  // Not after an exchange, nor with groups, whose chunks may be copied: ptxas would serialise some products
  // (C7515). Not with block scales, where one config spills. Results that are quantised take the place of
  // their sums.
  static constexpr bool kIndexesSums =
      kQuantises || (unrolls_stores(kConfig) && kConfig.cluster.k == 1 && !has_groups(kConfig) &&
                     !is_block_scaled(kConfig.epilogue));
  // groups of 8 columns whose operands are loaded ahead, so that one wait covers eight loads
  static constexpr int kOperandsAhead = 8;
  using Residuals = typename ResidualRows<kConfig.epilogue>::Pairs;

  /// This thread's first row of the wave, relative to the tile.
  SLUICE_DEVICE int fragment_row(int wave) const {
    return group_row + wave * kWaveRows + vectors.thread / 32 * 16 + vectors.thread % 32 / 4;
  }
  SLUICE_DEVICE static int fragment_column(int column) {
    return column + threadIdx.x % 4 * 2;
  }
  /// The first column of D that this tile covers.
  SLUICE_DEVICE static int first_output(const Tile& tile) {
    return outputs_of(kConfig.epilogue, tile.n_offset);
  }
  SLUICE_DEVICE RowScales row_scales(int wave) const {
    RowScales of_rows{ops.tensor_scale, ops.tensor_scale};
    if constexpr (EpilogueVectors<kConfig>::kRows) {
      const RowScales staged = vectors.rows(fragment_row(wave) - group_row);
      of_rows = {ops.tensor_scale * staged.upper, ops.tensor_scale * staged.lower};
    }
    rows.put(wave, of_rows);
    return of_rows;
  }
  /// Loads this thread's operands for the group of 8 columns of D at `column`: one ColumnPair per side.
  SLUICE_DEVICE void read_columns(int column, ColumnPair* operands) const {
#pragma unroll
    for (int side = 0; side < kSides; ++side) {
      const int staged = fragment_column(column) + side * own_outputs(kConfig);
      ColumnPair pair;
      if constexpr (EpilogueVectors<kConfig>::kColumns) pair.scale = vectors.columns(staged);
      if constexpr (EpilogueVectors<kConfig>::kBias) pair.bias = vectors.bias(staged);
      operands[side] = pair;
    }
  }
  /// This thread's rows of C, beginning at its part of the group of 8 columns at `at`.
  SLUICE_DEVICE ResidualRows<kConfig.epilogue> residual_rows(const Tile& tile, const GroupAt& at,
                                                             int span) const {
    const int row = tile.m_offset + fragment_row(at.wave);
    return {params, {row, tile.n_offset + fragment_column(at.column), row_matrix_of<kConfig>(tile)}, span};
  }
  /// Turns neighbouring groups of the fragment into elements of D; gated, two groups make one.
  template <int kGroups>
  SLUICE_DEVICE void epilogue(FragmentPairs (&pairs)[kGroups], const GroupAt& at, const RowScales& scales,
                              const ColumnPair* operands, const Residuals* residuals) const {
    constexpr int kSums = 4 * kSides;
    float acc[kGroups * kSums];
    sums.template copy<kGroups * kSums, kIndexesSums>(at.wave, at.column / 2 * kSides, acc);
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      FragmentPairs c{};
      if constexpr (kResidual) c = {residuals[i][0].value(), residuals[i][1].value()};
      if constexpr (kGated)
        pairs[i] = ops.apply_gated_to_fragment(&acc[kSums * i], scales, &operands[kSides * i]);
      else
        pairs[i] = ops.apply_to_fragment(&acc[kSums * i], scales, operands[i], c);
    }
  }
  /// The block of 128 columns at `at`, multiplied for e4m3. Stores its scales.
  SLUICE_DEVICE void quantise(const Tile& tile, const GroupAt& at,
                              FragmentPairs (&block)[kBlockGroups]) const {
    constexpr int kStep = 2;
    const RowScales scales = row_scales(at.wave);
#pragma unroll
    for (int i = 0; i < kBlockGroups; i += kStep) {
      const GroupAt first{at.wave, at.column + i * 8};
      ColumnPair operands[kStep * kSides];
      Residuals residuals[kResidual ? kStep : 1];
      FragmentPairs pairs[kStep];
#pragma unroll
      for (int j = 0; j < kStep; ++j) {
        read_columns(first.column + j * 8, &operands[kSides * j]);
        if constexpr (kResidual) residual_rows(tile, first, 8 * kStep).read(j * 8, residuals[j]);
      }
      epilogue<kStep>(pairs, first, scales, operands, residuals);
#pragma unroll
      for (int j = 0; j < kStep; ++j) block[i + j] = pairs[j];
    }
    const int column = first_output(tile) + at.column, columns = outputs_of(kConfig.epilogue, params.n);
    const QuadScales found = quantise_block(block, columns - fragment_column(column));
    // The first two threads of a quad store one each.
    const int which = threadIdx.x % 4, row = tile.m_offset + fragment_row(at.wave) + 8 * which;
    if (which > 1 || row >= row_end_of<kConfig>(params, tile) || column >= columns) return;
    const i64 in_matrices = i64{row_matrix_of<kConfig>(tile)} * params.m + row;
    float* const to = const_cast<float*>(params.scale_d);
    to[in_matrices * ceil_div(columns, kScaleBlock) + column / kScaleBlock] =
        which == 0 ? found.upper : found.lower;
  }
  /// store_direct() of one wave with block scales of D.
  SLUICE_DEVICE void store_blocks(const Tile& tile, int wave) const {
    const int row = tile.m_offset + fragment_row(wave);
    const int end = row_end_of<kConfig>(params, tile), matrix = row_matrix_of<kConfig>(tile);
#pragma unroll
    for (int first = 0; first < own_outputs(kConfig); first += kScaleBlock) {
      FragmentPairs block[kBlockGroups];
      quantise(tile, {wave, first}, block);
#pragma unroll
      for (int i = 0; i < kBlockGroups; ++i) {
        const int column = first_output(tile) + fragment_column(first + 8 * i);
        store_pair<kConfig.d, kConfig.epilogue>(params, {row, column, matrix}, block[i].upper, end);
        store_pair<kConfig.d, kConfig.epilogue>(params, {row + 8, column, matrix}, block[i].lower, end);
      }
    }
  }
  SLUICE_DEVICE void store_group(const Tile& tile, const GroupAt& at, const RowScales& scales) const {
    FragmentPairs pairs[1];
    ColumnPair operands[kSides];
    read_columns(at.column, operands);
    Residuals residuals;
    if constexpr (kResidual) residual_rows(tile, at, 8).read(0, residuals);
    epilogue<1>(pairs, at, scales, operands, &residuals);
    const int row = tile.m_offset + fragment_row(at.wave);
    const int column = d_column<kConfig>(params, first_output(tile) + fragment_column(at.column));
    if constexpr (kConfig.conv.op == ConvOp::wgrad)
      if (column < 0) return;
    const int end = row_end_of<kConfig>(params, tile), matrix = row_matrix_of<kConfig>(tile);
    store_pair<kConfig.d, kConfig.epilogue>(params, {row, column, matrix}, pairs[0].upper, end);
    store_pair<kConfig.d, kConfig.epilogue>(params, {row + 8, column, matrix}, pairs[0].lower, end);
  }
};

}  // namespace sluice
