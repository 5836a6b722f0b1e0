// SPDX-License-Identifier: Apache-2.0
// Block scales on their way from the caller's arrays to the accumulators. Two warps copy the scales
// of a k-tile (128 of k) to shared memory for each stage (ScaleLoader); math warps read them there
// (ScaleReader). A slot holds one scale per row of the CTA tile, followed by one per part of its columns. A
// part lies within a single 128-column block of B; a gated tile has parts of both halves
// (spec/smem_layout.h). With ScaleMode::vector128 each column is a part.
#pragma once

#include <sluice/spec/params.h>
#include <sluice/spec/smem_layout.h>
#include <sluice/device/ptx/shared.cuh>
#include <sluice/device/row_end.cuh>

namespace sluice {

/// The scales of some k-tiles, a power of two up to 4, from one that is a multiple of kCount on.
template <int kCount>
struct alignas(4 * kCount) ScaleRun {
  float values[kCount];

  /// Selects without an index: a variable index would put the run in local memory.
  SLUICE_DEVICE float at(int k_tile) const {
    if constexpr (kCount == 1) {
      return values[0];
    } else {
      const float low = k_tile % 2 == 0 ? values[0] : values[1];
      if constexpr (kCount == 2) return low;
      const float high = k_tile % 2 == 0 ? values[kCount - 2] : values[kCount - 1];
      return k_tile % kCount < 2 ? low : high;
    }
  }
};

/// One of the kScaleWarps warps that copy: each has an equal share of the rows, and all lanes take part. TMA
/// cannot copy scales, because a row of them need not be a multiple of 16 bytes. cp.async would copy word by
/// word and take shared memory bandwidth from the tensor cores (docs/findings/promotion.md). So plain loads
/// fetch four k-tiles at once into registers, where they stay until their stages are free. Scales of A by
/// columns (scale_a_columns) take a load per k-tile and row, of which a warp's lie side by side.
template <KernelConfig kConfig>
class ScaleLoader {
 public:
  /// `warp`: its number among the kScaleWarps.
  SLUICE_DEVICE void begin_tile(const GemmParams& params, const Tile& tile, int warp) {
    const int lane = threadIdx.x % 32;
    k_blocks_ = params.grid.k_tiles;
    first_row_ = warp * kConfig.tile.m / kScaleWarps + lane;
    // Rows and columns outside the matrix use the scales of the last ones; their sums are not stored.
    if constexpr (kConfig.scale_a_columns) {
      find_columns(params, tile);
    } else {
#pragma unroll
      for (int i = 0; i < kRowsPerLane; ++i) {
        const int row = min(tile.m_offset + first_row_ + 32 * i, params.m - 1);
        sources_[i] = params.scale_a + (i64{row_matrix_of<kConfig>(tile)} * params.m + row) * k_blocks_;
      }
    }
    const int blocks = ceil_div(params.n, kScaleBlock);
    const int block = scale_block_of(kConfig, params.n, tile.n_offset, lane);
    sources_[kRowsPerLane] = params.scale_b + (i64{tile.batch} * blocks + block) * k_blocks_;
    aligned_ = k_blocks_ % kRun == 0 &&
               (kConfig.scale_a_columns || reinterpret_cast<u64>(params.scale_a) % 16 == 0) &&
               reinterpret_cast<u64>(params.scale_b) % 16 == 0;
    is_first_ = true;
  }
  /// Call for each k-tile in order, from any first one. It loads at the first call and then for every kRun-th
  /// k-tile.
  SLUICE_DEVICE void fetch(const GemmParams&, int k_tile) {
    if (k_tile % kRun != 0 && !is_first_) return;
    is_first_ = false;
    load(k_tile - k_tile % kRun);
  }
  /// Writes the scales of `k_tile` to shared address `slot`.
  SLUICE_DEVICE void write(u32 slot, int k_tile) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kRowsPerLane; ++i)
      ptx::store_shared(slot + 4 * (first_row_ + 32 * i), runs_[i].at(k_tile));
    if (lane < scale_parts(kConfig))
      ptx::store_shared(slot + 4 * (kConfig.tile.m + lane), runs_[kRowsPerLane].at(k_tile));
  }

 private:
  static constexpr int kRowsPerLane = kConfig.tile.m / kScaleWarps / 32;
  static constexpr int kSources = kRowsPerLane + 1;  // rows of a lane, plus one part of the columns
  static constexpr int kRun = 4;                     // k-tiles per load: 16 bytes
  using Run = ScaleRun<kRun>;

  /// Finds the lane's rows in the matrix of scales by columns: the batch's, or with counts the group's.
  /// Scales outside are zeros: there is no register for a pointer to each row.
  SLUICE_DEVICE void find_columns(const GemmParams& params, const Tile& tile) {
    i64 matrix = row_matrix_of<kConfig>(tile);
    int first = 0, end = params.m;  // rows of A
    if constexpr (reads_table(kConfig)) {
      const GroupedParams& grouped = static_cast<const GroupedParams&>(params);
      column_ld_ = grouped.scale_a_ld;
      if constexpr (kConfig.groups.kind == GroupKind::counts) {
        matrix = tile.batch;
        first = tile.batch * grouped.group_pitch;  // at most m, for the group has a row
        end = first + min(grouped.group_pitch, params.m - first);
      }
    } else {
      column_ld_ = static_cast<const FactoredParams&>(params).scale_a_ld;
    }
    const int row = tile.m_offset + first_row_;
    rows_left_ = end - row;
    sources_[0] = params.scale_a + (matrix * k_blocks_ * column_ld_ + row - first);
#pragma unroll
    for (int i = 0; i < kRowsPerLane; ++i) runs_[i] = {};
  }
  /// Loads the runs that begin at `first`. These warps compete with math warps for issue slots, so the code
  /// has only one branch and no address arithmetic for single words. Scales past the end are not read.
  SLUICE_DEVICE void load(int first) {
    if constexpr (kConfig.scale_a_columns) {
      const float* column = sources_[0] + first * column_ld_;
#pragma unroll
      for (int j = 0; j < kRun; ++j, column += column_ld_)
#pragma unroll
        for (int i = 0; i < kRowsPerLane; ++i)
          if (first + j < k_blocks_ && 32 * i < rows_left_) runs_[i].values[j] = column[32 * i];
    }
    constexpr int kBegin = kConfig.scale_a_columns ? kRowsPerLane : 0;  // the sources that are left
    if (aligned_) {
#pragma unroll
      for (int i = kBegin; i < kSources; ++i) runs_[i] = *reinterpret_cast<const Run*>(sources_[i] + first);
    } else {
#pragma unroll
      for (int i = kBegin; i < kSources; ++i)
#pragma unroll
        for (int j = 0; j < kRun; ++j)
          if (first + j < k_blocks_) runs_[i].values[j] = sources_[i][first + j];
    }
  }
  const float* sources_[kSources];
  // With scale_a_columns, whose first source is that of the lane's first row.
  i64 column_ld_;
  int rows_left_;  // from the first row to the end of the matrix
  int k_blocks_, first_row_;
  bool aligned_, is_first_;
  Run runs_[kSources];
};

/// ScaleLoader for ScaleMode::vector128, where the scales of both sides lie by columns. A load is of a k-tile
/// and a row or column, and a warp's loads lie side by side. Lane i of warp w has every 64th row and column
/// from 32 w + i on. Scales outside the matrix are zeros, or those of an earlier k-tile: their sums are not
/// stored.
template <KernelConfig kConfig>
class ColumnScaleLoader {
 public:
  SLUICE_DEVICE void begin_tile(const GemmParams& params, const Tile& tile, int warp) {
    own_ = 32 * warp + threadIdx.x % 32;
    const int row = tile.m_offset + own_, column = tile.n_offset + own_, k_blocks = params.grid.k_tiles;
    rows_left_ = params.m - row;
    columns_left_ = params.n - column;
    of_rows_ = params.scale_a + (i64{tile.batch} * k_blocks * row_pitch(params) + row);
    of_columns_ = params.scale_b + (i64{tile.batch} * k_blocks * params.n + column);
#pragma unroll
    for (int i = 0; i < kHeld; ++i) runs_[i] = {};
    if (tile.first_k_tile % kRun != 0) load(params, tile.first_k_tile - tile.first_k_tile % kRun);
  }
  SLUICE_DEVICE void fetch(const GemmParams& params, int k_tile) {
    if (k_tile % kRun == 0) load(params, k_tile);
  }
  SLUICE_DEVICE void write(u32 slot, int k_tile) const {
#pragma unroll
    for (int i = 0; i < kRowsPerLane; ++i)
      ptx::store_shared(slot + 4 * (own_ + kStep * i), runs_[i].at(k_tile));
#pragma unroll
    for (int i = 0; i < kColumnsPerLane; ++i)
      if ((i + 1) * kStep <= kConfig.tile.n || own_ + kStep * i < kConfig.tile.n)
        ptx::store_shared(slot + 4 * (kConfig.tile.m + own_ + kStep * i), runs_[kRowsPerLane + i].at(k_tile));
  }

 private:
  static constexpr int kStep = 32 * kScaleWarps;
  static constexpr int kRowsPerLane = kConfig.tile.m / kStep;
  static constexpr int kColumnsPerLane = ceil_div(kConfig.tile.n, kStep);
  static constexpr int kHeld = kRowsPerLane + kColumnsPerLane;
  /// k-tiles per load: as many as 40 registers have room for. On the widest tiles that is one, whose products
  /// take longer than a load. A cluster along k takes a register more.
  static constexpr int kRun = kHeld <= 2 ? 4 : kHeld <= (kConfig.cluster.k > 1 ? 4 : 5) ? 2 : 1;
  using Run = ScaleRun<kRun>;

  SLUICE_DEVICE static i64 row_pitch(const GemmParams& params) {
    return static_cast<const FactoredParams&>(params).scale_a_ld;
  }
  /// Loads a run. Numbers from `params` need no registers.
  SLUICE_DEVICE void load(const GemmParams& params, int first) {
    const float* of_rows = of_rows_ + first * row_pitch(params);
    const float* of_columns = of_columns_ + i64{first} * params.n;
#pragma unroll
    for (int j = 0; j < kRun; ++j, of_rows += row_pitch(params), of_columns += params.n) {
      if (first + j >= params.grid.k_tiles) return;
#pragma unroll
      for (int i = 0; i < kRowsPerLane; ++i)
        if (kStep * i < rows_left_) runs_[i].values[j] = of_rows[kStep * i];
#pragma unroll
      for (int i = 0; i < kColumnsPerLane; ++i)
        if (kStep * i < columns_left_) runs_[kRowsPerLane + i].values[j] = of_columns[kStep * i];
    }
  }

  const float *of_rows_, *of_columns_;  // the lane's first row and column
  int own_;                             // its first row, and column, of the tile
  int rows_left_, columns_left_;        // from there to the end of the matrix
  Run runs_[kHeld];
};

template <KernelConfig kConfig, bool kEachColumn = scales_each_column(kConfig.epilogue)>
struct ScaleLoaderKind {
  using Type = ScaleLoader<kConfig>;
};
template <KernelConfig kConfig>
struct ScaleLoaderKind<kConfig, true> {
  using Type = ColumnScaleLoader<kConfig>;
};
template <KernelConfig kConfig>
using ScaleLoaderOf = typename ScaleLoaderKind<kConfig>::Type;

/// Reads the block scales of one math thread.
template <KernelConfig kConfig>
class ScaleReader {
 public:
  /// `row`: row in the CTA tile of the thread's first sum.
  SLUICE_DEVICE void read(u32 slot, int row) {
#pragma unroll
    for (int wave = 0; wave < kWaves; ++wave)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        rows_[wave][half] = ptx::load_shared(slot + 4 * (row + wave * kWaveRows + half * 8));
    if constexpr (!kEachColumn)
#pragma unroll
      for (int part = 0; part < kParts; ++part)
        parts_[part] = ptx::load_shared(slot + 4 * (kConfig.tile.m + part));
  }
  /// With ScaleMode::vector128: before the first of four sums in two columns, reads the scales of these.
  /// Registers have no room for those of all the thread's columns.
  SLUICE_DEVICE void read_columns(u32 slot, int i) {
    if (!kEachColumn || i % 4 != 0) return;
    const int column = i / 4 * 8 + threadIdx.x % 4 * 2;
    ptx::load_shared_v2(slot + 4 * (kConfig.tile.m + column), parts_[0], parts_[1]);
  }
  /// The factor of sum `i` of a wave (fragment order: device/ptx/wgmma.cuh).
  SLUICE_DEVICE float of(int wave, int i) const {
    return rows_[wave][i % 4 / 2] * parts_[kEachColumn ? i % 2 : scale_part_of(kConfig, i / 4 * 8)];
  }

 private:
  static constexpr bool kEachColumn = scales_each_column(kConfig.epilogue);
  static constexpr int kWaves = waves(kConfig), kParts = kEachColumn ? 2 : scale_parts(kConfig);

  float rows_[kWaves][2], parts_[kParts];
};

}  // namespace sluice
