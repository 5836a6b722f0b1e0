// SPDX-License-Identifier: Apache-2.0
// Quantises a matrix in both orders: rows of codes as they lie, and columns of codes, which are the rows of
// the transposed matrix. Products of a training step sum over either, and fp8 operands lie along the sum. The
// rule of a scale is that of kernels/quantize.cuh, but amax is at least 1e-12, and scales may be powers of
// two: then the multiplier loses its fraction, and the scale is its reciprocal.
//
// A CTA reads a tile of 128 x 128 once. A thread has 8 x 8 of it: its 8 rows of 8 codes go to memory from
// registers, its 8 columns of 8 codes through shared memory, whose lines of 128 bytes are columns. Pieces of
// 8 bytes are permuted by the columns' group, so that neither side has bank conflicts.
//
// | granularity  | kernels       | bytes read and written per element of 16 bits |
// | tensor, row  | amax, cast    | 6; cast goes backwards, so that L2 has what amax read last |
// | blocks       | cast          | 4                                             |
//
// A grid of any size is valid. `Arith` implements the steps on the GPU (quantize_both_entry.cuh) or in a test
// (tests/unit/quantize_both_kernels_test.cc).
#pragma once

#include <sluice/spec/quantize_both.h>
#include <sluice/kernels/quantize.cuh>

namespace sluice::quantize {

inline constexpr int kOwn = 8;  // rows, and columns, of a thread
inline constexpr int kPiecesOfLine = kBothTile / 8;

struct BothShared {
  u32 bits[2 * kBothTile];           // largest magnitudes of the tile's rows, then of its columns
  float multipliers[2 * kBothTile];  // the same order
  union {
    struct {
      u32 largest[kWarps][kBothTile];
      float sums[kWarps][kBothTile];
    } of_warps;
    u64 pieces[kBothTile * kPiecesOfLine];
  };
};

template <BothConfig kConfig, class Arith>
struct BothQuantizer {
  static constexpr bool kWholeRows = kConfig.granularity == Granularity::row;
  static constexpr bool kTensor = kConfig.granularity == Granularity::tensor;
  static constexpr bool kSquares = kConfig.granularity == Granularity::square_block;
  static constexpr bool kAmax = kConfig.step == BothStep::amax;
  static constexpr QuantizeConfig kLoads{.input = kConfig.input, .vectors = true, .gate = kConfig.gate};
  using Loader = Quantizer<kLoads, Arith>;
  using Fetched = typename Loader::Fetched;

  const BothParams& p;
  BothShared& shared;
  QuantizeParams loads = {.input = p.input,
                          .output = nullptr,
                          .scales = nullptr,
                          .scratch = nullptr,
                          .rows = p.row_count,
                          .columns = p.column_count,
                          .input_ld = p.input_ld,
                          .output_ld = 0,
                          .scale_given = false,
                          .hand_off = {}};

  SLUICE_DEVICE u32 row_tiles() const { return static_cast<u32>(scale_blocks(p.row_count)); }
  SLUICE_DEVICE u32 column_tiles() const { return static_cast<u32>(scale_blocks(p.column_count)); }
  // A warp has 16 rows of all columns: a half of it reads 256 bytes of a row.
  SLUICE_DEVICE static int own_row() { return static_cast<int>(threadIdx.x / 16) * kOwn; }
  SLUICE_DEVICE static int own_column() { return static_cast<int>(threadIdx.x % 16) * kOwn; }

  struct Tile {
    u32 row, column;  // in tiles
  };
  /// Tiles are counted down the columns.
  SLUICE_DEVICE Tile tile_at(u32 index) const { return {index % row_tiles(), index / row_tiles()}; }

  SLUICE_DEVICE void fetch(Tile tile, Fetched (&fetched)[kOwn]) const {
    const Loader loader{loads};
    const i64 row = i64{tile.row} * kBothTile + own_row();
    const i64 chunk = i64{tile.column} * (kBothTile / kQuantizeChunk) + threadIdx.x % 16;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) fetched[i] = loader.fetch(row + i, chunk);
  }

  SLUICE_DEVICE static u32 larger(u32 a, u32 b) {
    return a > b ? a : b;
  }
  SLUICE_DEVICE static u32 bits_of(float value) {
    return __builtin_bit_cast(u32, value) & 0x7fffffffu;
  }

  SLUICE_DEVICE static Scale scale_of(u32 bits) {
    const u32 smallest = __builtin_bit_cast(u32, kSmallestTrainingAmax);
    constexpr float kLargest = largest_of(kConfig.output);
    const float amax = __builtin_bit_cast(float, larger(bits, smallest));
    const float multiplier = 1.0f / amax * kLargest;
    if constexpr (!kConfig.powers_of_two) return {multiplier, amax * (1.0f / kLargest)};
    const u32 word = __builtin_bit_cast(u32, multiplier);
    const float power = __builtin_bit_cast(float, word & 0xff800000u);
    const float kept = multiplier == multiplier ? power : multiplier;  // NaN stays
    return {kept, 1.0f / kept};
  }

  /// Finds the largest magnitudes of the tile's rows and columns, and its columns' sums. On return, behind a
  /// barrier, `shared.bits` has the rows' and `shared.of_warps` each warp's part of the columns'.
  SLUICE_DEVICE void look(const Fetched (&fetched)[kOwn], bool sums) const {
    u32 of_column[kOwn] = {};
    float sum[kOwn] = {};
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const Chunk values = Loader::values_of(fetched[i]);
      u32 of_row = 0;
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        const u32 bits = bits_of(values.values[j]);
        of_row = larger(of_row, bits);
        of_column[j] = larger(of_column[j], bits);
        sum[j] += values.values[j];
      }
      of_row = largest_of_lanes(of_row, 16);
      if (threadIdx.x % 16 == 0) shared.bits[own_row() + i] = of_row;
    }
    const u32 warp = threadIdx.x / 32;
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const u32 other = static_cast<u32>(__shfl_xor_sync(~0u, of_column[j], 16));
      if (threadIdx.x % 32 < 16)
        shared.of_warps.largest[warp][own_column() + j] = larger(of_column[j], other);
      if (sums) {
        const float more = static_cast<float>(__shfl_xor_sync(~0u, sum[j], 16));
        if (threadIdx.x % 32 < 16) shared.of_warps.sums[warp][own_column() + j] = sum[j] + more;
      }
    }
    __syncthreads();
  }

  /// The largest magnitude of a column of the tile, after look().
  SLUICE_DEVICE u32 largest_of_column(int column) const {
    u32 bits = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) bits = larger(bits, shared.of_warps.largest[warp][column]);
    return bits;
  }

  /// Adds up the tile's columns, after look().
  SLUICE_DEVICE void store_sums(Tile tile) const {
    const i64 column = i64{tile.column} * kBothTile + threadIdx.x;
    if (threadIdx.x >= kBothTile || column >= p.column_count) return;
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) sum += shared.of_warps.sums[warp][threadIdx.x];
    p.sums[tile.row * p.column_count + column] = sum;
  }

  /// The amax step: maxima of the matrix, or of each row and column.
  SLUICE_DEVICE void amax(u32 begin, u32 end) const {
    for (u32 index = begin; index < end; ++index) {
      const Tile tile = tile_at(index);
      Fetched fetched[kOwn];
      fetch(tile, fetched);
      if constexpr (kTensor) {
        u32 bits = 0;
#pragma unroll
        for (int i = 0; i < kOwn; ++i) bits = larger(bits, magnitude(Loader::values_of(fetched[i])));
        bits = Loader::largest_of_block(bits, shared.bits);
        if (threadIdx.x == 0) atomicMax(p.amaxes, bits);
      } else {
        look(fetched, false);
        const int line = static_cast<int>(threadIdx.x % kBothTile);
        const bool is_row = threadIdx.x < kBothTile;
        const i64 place = i64{is_row ? tile.row : tile.column} * kBothTile + line;
        const u32 bits = is_row ? shared.bits[line] : largest_of_column(line);
        const bool wanted = (is_row ? p.rows : p.columns_t) != nullptr;
        if (wanted && place < (is_row ? p.row_count : p.column_count))
          atomicMax(p.amaxes + (is_row ? 0 : p.row_count) + place, bits);
        __syncthreads();
      }
    }
  }

  /// Makes the multipliers of the tile's rows and columns, and stores the scales that no other tile stores.
  SLUICE_DEVICE void find_multipliers(Tile tile) const {
    const int line = static_cast<int>(threadIdx.x % kBothTile);
    const bool is_row = threadIdx.x < kBothTile;
    const i64 count = is_row ? p.row_count : p.column_count;
    const i64 place = i64{is_row ? tile.row : tile.column} * kBothTile + line;
    float* const scales = is_row ? p.row_scales : p.column_scales;
    u32 bits = 0;
    bool stores = false;
    i64 target = place;
    if constexpr (kTensor) {
      bits = Arith::read(p.amaxes);
      stores = threadIdx.x == 0 && tile.row == 0 && tile.column == 0;
    } else if constexpr (kWholeRows) {
      if (place < count) bits = Arith::read(p.amaxes + (is_row ? 0 : p.row_count) + place);
      stores = place < count && (is_row ? tile.column : tile.row) == 0;
    } else if constexpr (kSquares) {
#pragma unroll
      for (int row = 0; row < kBothTile; row += 32) bits = larger(bits, shared.bits[row + threadIdx.x % 32]);
      bits = largest_of_lanes(bits, 32);
      stores = line == 0;
      target =
          is_row ? i64{tile.row} * column_tiles() + tile.column : i64{tile.column} * row_tiles() + tile.row;
    } else {
      bits = is_row ? shared.bits[line] : largest_of_column(line);
      stores = place < count;
      target = is_row ? place * column_tiles() + tile.column : place * row_tiles() + tile.row;
    }
    const Scale scale = scale_of(bits);
    const bool wanted = kTensor || (is_row ? p.rows : p.columns_t) != nullptr;
    if (stores && wanted) scales[target] = scale.scale;
    shared.multipliers[threadIdx.x] = scale.multiplier;
  }

  /// Stores the codes of rows, and puts those of columns into shared memory.
  SLUICE_DEVICE void cast_tile(Tile tile, const Fetched (&fetched)[kOwn]) const {
    const i64 row = i64{tile.row} * kBothTile + own_row();
    const i64 column = i64{tile.column} * kBothTile + own_column();
    u32 words[kOwn][2] = {};  // of columns
    float of_columns[kOwn];
#pragma unroll
    for (int j = 0; j < kOwn; ++j) of_columns[j] = shared.multipliers[kBothTile + own_column() + j];
#pragma unroll
    for (int i = 0; i < kOwn; i += 2) {
      const Chunk even = Loader::values_of(fetched[i]), odd = Loader::values_of(fetched[i + 1]);
      if (p.rows != nullptr) {
        store_row(row + i, column, even, shared.multipliers[own_row() + i]);
        store_row(row + i + 1, column, odd, shared.multipliers[own_row() + i + 1]);
      }
      if (p.columns_t == nullptr) continue;
#pragma unroll
      for (int j = 0; j < kOwn; ++j)
        words[j][i / 4] |= Arith::template pack_fp8<kConfig.output>(even.values[j] * of_columns[j],
                                                                    odd.values[j] * of_columns[j])
                           << (i % 4 * 8);
    }
    if (p.columns_t == nullptr) return;
#pragma unroll
    for (int j = 0; j < kOwn; ++j)
      shared.pieces[piece_at(own_column() + j, own_row() / 8)] =
          static_cast<u64>(words[j][1]) << 32 | words[j][0];
  }

  SLUICE_DEVICE void store_row(i64 row, i64 column, const Chunk& values, float multiplier) const {
    if (row >= p.row_count || column >= p.column_count) return;
    u32 words[2] = {};
#pragma unroll
    for (int j = 0; j < kOwn; j += 2)
      words[j / 4] |= Arith::template pack_fp8<kConfig.output>(values.values[j] * multiplier,
                                                               values.values[j + 1] * multiplier)
                      << (j % 4 * 8);
    Arith::store_words(p.rows + row * p.rows_ld + column, words);
  }

  /// Place of a piece of 8 codes of a column.
  SLUICE_DEVICE static int piece_at(int column, int piece) {
    return column * kPiecesOfLine + (piece ^ (column / kOwn));
  }

  /// Stores the columns, 16 codes at a time: 8 lanes have a line.
  SLUICE_DEVICE void store_columns(Tile tile) const {
    constexpr int kLinesAtOnce = kQuantizeThreads / 8;
    const int pair = static_cast<int>(threadIdx.x % 8);
#pragma unroll
    for (int first = 0; first < kBothTile; first += kLinesAtOnce) {
      const int line = first + static_cast<int>(threadIdx.x / 8);
      const i64 column = i64{tile.column} * kBothTile + line;
      if (column >= p.column_count) continue;
      const u64 low = shared.pieces[piece_at(line, 2 * pair)],
                high = shared.pieces[piece_at(line, 2 * pair + 1)];
      const u32 words[4] = {static_cast<u32>(low), static_cast<u32>(low >> 32), static_cast<u32>(high),
                            static_cast<u32>(high >> 32)};
      Arith::store(p.columns_t + column * p.columns_t_ld + i64{tile.row} * kBothTile + 16 * pair, words);
    }
  }

  SLUICE_DEVICE void cast(u32 begin, u32 end) const {
    Fetched fetched[kOwn];
    if (begin < end) fetch(tile_at(end - 1), fetched);
    for (u32 index = end; index-- > begin;) {  // backwards: see above
      const Tile tile = tile_at(index);
      constexpr bool kLooks = !kTensor && !kWholeRows;
      const bool sums = p.sums != nullptr;
      if (kLooks || sums) look(fetched, sums);
      find_multipliers(tile);
      if (sums) store_sums(tile);
      __syncthreads();
      cast_tile(tile, fetched);
      // The next tile's loads are in flight while this tile's columns are stored.
      if (index > begin) fetch(tile_at(index - 1), fetched);
      __syncthreads();
      if (p.columns_t != nullptr) store_columns(tile);
      __syncthreads();
    }
  }
};

/// Each CTA has a run of neighbouring tiles.
template <BothConfig kConfig, class Arith>
SLUICE_DEVICE void run_both(const BothParams& params) {
  __shared__ BothShared shared;
  const BothQuantizer<kConfig, Arith> quantizer{params, shared};
  const u64 tiles = u64{quantizer.row_tiles()} * quantizer.column_tiles();
  const u32 begin = static_cast<u32>(tiles * blockIdx.x / gridDim.x);
  const u32 end = static_cast<u32>(tiles * (blockIdx.x + 1) / gridDim.x);
  if constexpr (kConfig.step == BothStep::amax)
    quantizer.amax(begin, end);
  else
    quantizer.cast(begin, end);
}

}  // namespace sluice::quantize
