// SPDX-License-Identifier: Apache-2.0
// The tiles of a CTA of kernels/quantize_both.cuh, and how a thread gets its part of them. Each thread copies
// its part of the next tiles by cp.async into slots of its own, so that loads go on whatever the CTA does.
//
// The matrix may be SwiGLU's result, or its gradient (BothSource). A thread then computes its part from two
// or three tiles, and rounds it as a kernel would that writes the matrix. Tiles of gate and of up alternate,
// so that L2 has what both read.
#pragma once

#include <sluice/spec/quantize_both.h>
#include <sluice/kernels/quantize.cuh>

namespace sluice::quantize {

inline constexpr int kOwn = 8;  // rows, and columns, of a thread
inline constexpr u32 kBandTiles = 8;

template <BothConfig kConfig, class Arith>
struct BothTiles {
  static constexpr DType kInput = kConfig.input;
  static constexpr BothSource kSource = kConfig.source;
  static constexpr u32 kStages = both_stages(kSource), kInputs = both_inputs(kSource);
  static_assert(kSource == BothSource::matrix || is_16bit(kInput));
  using Raw = typename Arith::template Raw<kInput>;

  const BothParams& p;

  SLUICE_DEVICE u32 row_tiles() const { return static_cast<u32>(scale_blocks(p.row_count)); }
  SLUICE_DEVICE u32 column_tiles() const { return static_cast<u32>(scale_blocks(p.column_count)); }
  // A warp has 16 rows of all columns: a half of it reads 256 bytes of a row.
  SLUICE_DEVICE static int own_row() { return static_cast<int>(threadIdx.x / 16) * kOwn; }
  SLUICE_DEVICE static int own_column() { return static_cast<int>(threadIdx.x % 16) * kOwn; }

  struct Tile {
    u32 row, column;  // in tiles
  };
  /// Tiles are counted in bands: down the columns of a band, then to the next column. So the tiles of a wave
  /// lie side by side, and DRAM reads and writes runs of 1 KB and more.
  SLUICE_DEVICE Tile tile_at(u32 index) const {
    const u32 first = index / (kBandTiles * column_tiles()) * kBandTiles;
    const u32 rows = row_tiles() - first < kBandTiles ? row_tiles() - first : kBandTiles;
    const u32 place = index - first * column_tiles();
    return {first + place % rows, column_at(place / rows)};
  }
  /// The n-th column of tiles: of the gradients of gate and up in turn.
  SLUICE_DEVICE u32 column_at(u32 n) const {
    if constexpr (kSource != BothSource::swiglu_gradient) return n;
    return n / 2 + n % 2 * ((column_tiles() + 1) / 2);
  }

  /// How many of the thread's rows are inside the matrix.
  SLUICE_DEVICE int rows_left(i64 row, i64 column) const {
    const i64 left = p.row_count - row;
    if (column >= p.column_count || left <= 0) return 0;
    return left < kOwn ? static_cast<int>(left) : kOwn;
  }

  /// The thread's part of a tile, a row each, as in memory; zeros outside the matrix.
  using Part = Raw[kOwn];

  /// Starts the copy of the thread's part of a tile into its slots of a stage of the ring. No other thread
  /// reads them.
  SLUICE_DEVICE void start(u32 stage, Tile tile) const {
    const i64 row = i64{tile.row} * kBothTile + own_row();
    const i64 column = i64{tile.column} * kBothTile + own_column();
    const int left = rows_left(row, column);
    if constexpr (kSource == BothSource::matrix) {
      start_input(stage, 0, p.input, p.input_ld, row, column, left);
    } else {
      const i64 of_gate = column - (is_of_up(tile) ? half() : 0);
      start_input(stage, 0, p.input, p.input_ld, row, of_gate, left);
      start_input(stage, 1, p.input, p.input_ld, row, of_gate + half(), is_of_up(tile) ? 0 : left);
      if constexpr (kSource == BothSource::swiglu_gradient)
        start_input(stage, 2, p.gradient, p.gradient_ld, row, of_gate, left);
    }
  }
  SLUICE_DEVICE static u32 slot_of(u32 stage, u32 input, int row) {
    return (stage * kInputs + input) * kOwn + static_cast<u32>(row);
  }
  /// Starts the copy of the thread's part of one input, of `left` rows; the others become zeros.
  SLUICE_DEVICE static void start_input(u32 stage, u32 input, const void* base, i64 ld, i64 row, i64 column,
                                        int left) {
    i64 first = row * ld + column;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      Arith::template start<kInput>(slot_of(stage, input, i), base, first, i < left);
      first += ld;
    }
  }
  /// Columns of gate, and of up.
  SLUICE_DEVICE i64 half() const {
    return kSource == BothSource::swiglu_gradient ? p.column_count / 2 : p.column_count;
  }
  /// Whether the thread's columns are those of up's gradient.
  SLUICE_DEVICE bool is_of_up(Tile tile) const {
    return kSource == BothSource::swiglu_gradient && i64{tile.column} * kBothTile + own_column() >= half();
  }

  /// A row of the thread's part, from the copies in a stage.
  SLUICE_DEVICE Raw made_of(u32 stage, int row, bool of_up) const {
    const Raw first = Arith::template taken<kInput>(slot_of(stage, 0, row));
    if constexpr (kSource == BothSource::matrix) {
      return first;
    } else {
      Chunk gate{}, up{};
      Arith::template unpack<kInput>(first, gate.values);
      Arith::template unpack<kInput>(Arith::template taken<kInput>(slot_of(stage, 1, row)), up.values);
      if constexpr (kSource == BothSource::swiglu) {
        apply_gate<Arith>(gate, up);
        return Arith::template packed<kInput>(gate.values);
      } else {
        Chunk gradient{}, result{};
        Arith::template unpack<kInput>(Arith::template taken<kInput>(slot_of(stage, 2, row)),
                                       gradient.values);
#pragma unroll
        for (int j = 0; j < kOwn; ++j) {
          const float x = gate.values[j], share = Arith::sigmoid(x);
          const float slope = share * (1.0f + x * (1.0f - share));
          result.values[j] = gradient.values[j] * (of_up ? x * share : up.values[j] * slope);
        }
        return Arith::template packed<kInput>(result.values);
      }
    }
  }

  /// The tiles of this CTA, in order or backwards, with kStages of them in flight.
  struct Walk {
    const BothTiles& tiles;
    const bool backwards;
    u32 count = tiles.row_tiles() * tiles.column_tiles();
    u32 index = blockIdx.x, ahead = blockIdx.x;  // the tile at hand, and the next to start
    u32 stage = 0;

    SLUICE_DEVICE Tile tile_of(u32 at) const { return tiles.tile_at(backwards ? count - 1 - at : at); }
    SLUICE_DEVICE Tile tile() const { return tile_of(index); }
    /// Starts the next tile in the place of the one at hand, whose part is in registers; and goes on.
    SLUICE_DEVICE void start_next() {
      if (ahead < count) tiles.start(stage, tile_of(ahead));
      Arith::commit();
      ahead += gridDim.x;
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
    SLUICE_DEVICE void begin() {
      for (u32 i = 0; i < kStages; ++i) start_next();
    }
    /// Waits for the tile at hand. Returns whether there is one.
    SLUICE_DEVICE bool take(Part& part) const {
      if (index >= count) return false;
      Arith::template wait<static_cast<int>(kStages) - 1>();
      const bool of_up = tiles.is_of_up(tile());
#pragma unroll
      for (int i = 0; i < kOwn; ++i) part[i] = tiles.made_of(stage, i, of_up);
      return true;
    }
  };
};

}  // namespace sluice::quantize
