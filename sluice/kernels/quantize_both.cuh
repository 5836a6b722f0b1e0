// SPDX-License-Identifier: Apache-2.0
// Quantises a matrix in both orders: rows of codes as they lie, and columns of codes, which are the rows of
// the transposed matrix. Products of a training step sum over either, and fp8 operands lie along the sum.
// Scales follow kernels/quantize.cuh, but amax is at least 1e-12, and scales may be powers of two. The
// multiplier then loses its fraction, and the scale is its reciprocal.
//
// A CTA reads a tile of 128 x 128 once, and a thread has 8 x 8 of it. Its rows of codes go to memory from
// registers. Its columns of codes go through shared memory, whose lines of 128 bytes are columns. Pieces of
// 8 bytes are permuted by the columns' group, so that neither side has bank conflicts.
//
// | granularity  | kernels       | bytes read and written per element of a matrix of 16 bits  |
// | tensor, row  | amax, cast    | 6; cast goes backwards, so that L2 has what amax read last |
// | blocks       | cast          | 4                                                          |
// SwiGLU's result takes 4 bytes per read, and its gradient 3, if L2 has what two tiles read.
//
// both_tiles.cuh has the order of tiles and their loads. SwiGLU's result or gradient takes the matrix's place
// there.
//
// A grid of any size is valid. `Arith` implements the steps on the GPU (quantize_both_entry.cuh) or in a test
// (tests/unit/quantize_both_kernels_test.cc).
#pragma once

#include <sluice/kernels/both_tiles.cuh>

namespace sluice::quantize {

inline constexpr int kPiecesOfLine = kBothTile / 8;

struct BothShared {
  alignas(16) float multipliers[2 * kBothTile];  // the tile's rows', then its columns'
  union {
    struct {
      u32 largest[kWarps][kBothTile];  // the columns'; pairs of 16 bits take half of it
      float sums[kWarps][kBothTile];
      u32 of_rows[kBothTile];  // largest magnitudes
    } of_warps;
    alignas(16) u64 pieces[kBothTile * kPiecesOfLine];
  };
};

template <BothConfig kConfig, class Arith>
struct BothQuantizer : BothTiles<kConfig, Arith> {
  using Tiles = BothTiles<kConfig, Arith>;
  using Tiles::kInput, Tiles::p, Tiles::row_tiles, Tiles::column_tiles;
  using Tiles::own_row, Tiles::own_column, Tiles::rows_left;
  using typename Tiles::Part, typename Tiles::Tile, typename Tiles::Walk;
  static constexpr bool kTensor = kConfig.granularity == Granularity::tensor;
  static constexpr bool kWholeRows = kConfig.granularity == Granularity::row;
  static constexpr bool kSquares = kConfig.granularity == Granularity::square_block;
  /// Codes are the same in both orders.
  static constexpr bool kOneScale = kTensor || kSquares;
  /// Magnitudes are compared two at a time, as 16-bit integers.
  static constexpr bool kPairs = is_16bit(kInput);

  BothShared& shared;

  SLUICE_DEVICE static Chunk values_of(const Part& part, int i) {
    Chunk result{};
    Arith::template unpack<kInput>(part[i], result.values);
    return result;
  }

  SLUICE_DEVICE static u32 larger(u32 a, u32 b) { return a > b ? a : b; }
  /// fp32 bits of a magnitude as look() has it.
  SLUICE_DEVICE static u32 float_bits(u32 magnitude) {
    if constexpr (!kPairs) return magnitude;
    if constexpr (kInput == DType::bf16) return magnitude << 16;
    return __builtin_bit_cast(u32, Arith::template half_of<kInput>(magnitude, 0));
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

  /// Finds the largest magnitudes of the tile's rows, and each warp's part of those of its columns.
  SLUICE_DEVICE void look(const Part& part) const {
    if constexpr (kPairs)
      look_at_pairs(part);
    else
      look_at_values(part);
  }

  SLUICE_DEVICE void look_at_pairs(const Part& part) const {
    u32 columns[kOwn / 2] = {};
#pragma unroll
    for (int i = 0; i < kOwn; i += 2) {
      u32 both = 0;  // two rows'
#pragma unroll
      for (int of = 0; of < 2; ++of) {
        u32 words[kOwn / 2], row = 0;
        Arith::template words_of<kInput>(part[i + of], words);
#pragma unroll
        for (int j = 0; j < kOwn / 2; ++j) {
          words[j] &= 0x7fff7fffu;
          row = Arith::larger_pair(row, words[j]);
          columns[j] = Arith::larger_pair(columns[j], words[j]);
        }
        row = Arith::larger_pair(row, row >> 16);
        both = of == 0 ? row & 0xffffu : both | row << 16;
      }
#pragma unroll
      for (int distance = 8; distance > 0; distance /= 2)
        both = Arith::larger_pair(both, static_cast<u32>(__shfl_xor_sync(~0u, both, distance)));
      if (threadIdx.x % 16 == 0) {
        shared.of_warps.of_rows[own_row() + i] = both & 0xffffu;
        shared.of_warps.of_rows[own_row() + i + 1] = both >> 16;
      }
    }
#pragma unroll
    for (int j = 0; j < kOwn / 2; ++j) {
      columns[j] = Arith::larger_pair(columns[j], static_cast<u32>(__shfl_xor_sync(~0u, columns[j], 16)));
      if (threadIdx.x % 32 < 16) shared.of_warps.largest[threadIdx.x / 32][own_column() / 2 + j] = columns[j];
    }
  }

  SLUICE_DEVICE void look_at_values(const Part& part) const {
    u32 columns[kOwn] = {};
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const Chunk values = values_of(part, i);
      u32 row = 0;
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        const u32 bits = __builtin_bit_cast(u32, values.values[j]) & 0x7fffffffu;
        row = larger(row, bits);
        columns[j] = larger(columns[j], bits);
      }
      row = largest_of_lanes(row, 16);
      if (threadIdx.x % 16 == 0) shared.of_warps.of_rows[own_row() + i] = row;
    }
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      columns[j] = larger(columns[j], static_cast<u32>(__shfl_xor_sync(~0u, columns[j], 16)));
      if (threadIdx.x % 32 < 16) shared.of_warps.largest[threadIdx.x / 32][own_column() + j] = columns[j];
    }
  }

  /// fp32 bits of the largest magnitude of a row, or of a column, of the tile; after look() and a barrier.
  SLUICE_DEVICE u32 largest_at(int line, bool is_row) const {
    if (is_row) return float_bits(shared.of_warps.of_rows[line]);
    u32 bits = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) {
      if constexpr (kPairs)
        bits = Arith::larger_pair(bits, shared.of_warps.largest[warp][line / 2]);
      else
        bits = larger(bits, shared.of_warps.largest[warp][line]);
    }
    if constexpr (kPairs) bits = bits >> line % 2 * 16 & 0xffffu;
    return float_bits(bits);
  }

  /// Adds up each warp's part of the columns.
  SLUICE_DEVICE void add(const Part& part) const {
    float sums[kOwn] = {};
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const Chunk values = values_of(part, i);
#pragma unroll
      for (int j = 0; j < kOwn; ++j) sums[j] += values.values[j];
    }
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      sums[j] += static_cast<float>(__shfl_xor_sync(~0u, sums[j], 16));
      if (threadIdx.x % 32 < 16) shared.of_warps.sums[threadIdx.x / 32][own_column() + j] = sums[j];
    }
  }
  SLUICE_DEVICE void store_sums(Tile tile) const {
    const i64 column = i64{tile.column} * kBothTile + threadIdx.x;
    if (threadIdx.x >= kBothTile || column >= p.column_count) return;
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) sum += shared.of_warps.sums[warp][threadIdx.x];
    p.sums[tile.row * p.column_count + column] = sum;
  }

  /// The thread's row or column in find_multipliers() and amax().
  struct Line {
    bool is_row;
    int line;   // in the tile
    i64 place;  // in the matrix
    bool wanted, inside;
  };
  SLUICE_DEVICE Line line_of(Tile tile) const {
    const bool is_row = threadIdx.x < kBothTile;
    const int line = static_cast<int>(threadIdx.x % kBothTile);
    const i64 place = i64{is_row ? tile.row : tile.column} * kBothTile + line;
    return {is_row, line, place, (is_row ? p.rows : p.columns_t) != nullptr,
            place < (is_row ? p.row_count : p.column_count)};
  }
  SLUICE_DEVICE u32* amax_of(const Line& at) const {
    return p.amaxes + (at.is_row ? 0 : p.row_count) + at.place;
  }

  SLUICE_DEVICE u32 amax_read(const Line& at) const {
    return at.inside ? Arith::read(amax_of(at)) : 0;
  }

  /// The amax step: maxima of the matrix, or of each row and column.
  SLUICE_DEVICE void amax() const {
    u32 of_matrix = 0;
    Part part;
    Walk walk{*this, false};
    walk.begin();
    for (; walk.take(part); walk.index += gridDim.x) {
      if constexpr (kTensor) {
        of_matrix = larger(of_matrix, largest_of_part(part));
        walk.start_next();
      } else {
        look(part);
        __syncthreads();
        walk.start_next();
        const Line at = line_of(walk.tile());
        if (at.wanted && at.inside) atomicMax(amax_of(at), largest_at(at.line, at.is_row));
        __syncthreads();
      }
    }
    if constexpr (kTensor) {
      of_matrix = largest_of_lanes(of_matrix, 32);
      if (threadIdx.x % 32 == 0) atomicMax(p.amaxes, of_matrix);
    }
  }

  SLUICE_DEVICE static u32 largest_of_part(const Part& part) {
    u32 bits = 0;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      if constexpr (kPairs) {
        u32 words[kOwn / 2];
        Arith::template words_of<kInput>(part[i], words);
#pragma unroll
        for (const u32 word : words) bits = Arith::larger_pair(bits, word & 0x7fff7fffu);
      } else {
        bits = larger(bits, magnitude(values_of(part, i)));
      }
    }
    if constexpr (kPairs) bits = larger(bits & 0xffffu, bits >> 16);
    return float_bits(bits);
  }

  /// Makes the multipliers of the tile's rows and columns, and stores the scales that no other tile stores.
  /// `bits`: the largest magnitude of the thread's line, if the amax step found it.
  SLUICE_DEVICE void find_multipliers(Tile tile, u32 bits) const {
    const Line at = line_of(tile);
    bool stores = at.wanted && at.inside;
    i64 target = at.place;
    if constexpr (kTensor) {
      stores = threadIdx.x == 0 && tile.row == 0 && tile.column == 0;
      target = 0;
    } else if constexpr (kWholeRows) {
      stores = stores && (at.is_row ? tile.column : tile.row) == 0;
    } else if constexpr (kSquares) {
      bits = 0;
#pragma unroll
      for (int row = 0; row < kBothTile; row += 32)
        bits = larger(bits, shared.of_warps.of_rows[row + threadIdx.x % 32]);
      bits = float_bits(largest_of_lanes(bits, 32));
      stores = at.wanted && at.line == 0;
      target = at.is_row ? i64{tile.row} * column_tiles() + tile.column
                         : i64{tile.column} * row_tiles() + tile.row;
    } else {
      bits = largest_at(at.line, at.is_row);
      target = at.is_row ? at.place * column_tiles() + tile.column : tile.row * p.column_count + at.place;
    }
    const Scale scale = scale_of(bits);
    if (stores) (at.is_row ? p.row_scales : p.column_scales)[target] = scale.scale;
    shared.multipliers[threadIdx.x] = scale.multiplier;
  }

  SLUICE_DEVICE static u32 pack4(float a, float b, float c, float d) {
    return Arith::template pack_fp8<kConfig.output>(a, b) | Arith::template pack_fp8<kConfig.output>(c, d)
                                                                << 16;
  }

  /// Stores the codes of rows, and puts those of columns into shared memory.
  SLUICE_DEVICE void cast_tile(Tile tile, const Part& part) const {
    const i64 row = i64{tile.row} * kBothTile + own_row();
    const i64 column = i64{tile.column} * kBothTile + own_column();
    const int left = rows_left(row, column);
    u8* target = p.rows + row * p.rows_ld + column;
    float of_columns[kOwn];
#pragma unroll
    for (int j = 0; j < kOwn; ++j) of_columns[j] = shared.multipliers[kBothTile + own_column() + j];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Chunk values[4];
      u32 rows[4][2], columns[kOwn];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int mine = 4 * half + i;
        values[i] = values_of(part, mine);
        const float* const v = values[i].values;
        const float m = shared.multipliers[own_row() + mine];
        if (kOneScale || p.rows != nullptr) {
          rows[i][0] = pack4(v[0] * m, v[1] * m, v[2] * m, v[3] * m);
          rows[i][1] = pack4(v[4] * m, v[5] * m, v[6] * m, v[7] * m);
        }
        if (p.rows != nullptr && mine < left) Arith::store_words(target, rows[i]);
        target += p.rows_ld;
      }
      if (p.columns_t == nullptr) continue;
      const u32 inside = inside_of(left - 4 * half);
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        if constexpr (kOneScale) {
          if (j % 4 != 0) continue;
          const u32 w[4] = {rows[0][j / 4], rows[1][j / 4], rows[2][j / 4], rows[3][j / 4]};
          const u32 low = Arith::chosen_bytes(w[0], w[1], 0x5140),
                    more = Arith::chosen_bytes(w[2], w[3], 0x5140);
          const u32 high = Arith::chosen_bytes(w[0], w[1], 0x7362),
                    last = Arith::chosen_bytes(w[2], w[3], 0x7362);
          columns[j] = Arith::chosen_bytes(low, more, 0x5410);
          columns[j + 1] = Arith::chosen_bytes(low, more, 0x7632);
          columns[j + 2] = Arith::chosen_bytes(high, last, 0x5410);
          columns[j + 3] = Arith::chosen_bytes(high, last, 0x7632);
        } else {
          const float m = of_columns[j];
          columns[j] = pack4(values[0].values[j] * m, values[1].values[j] * m, values[2].values[j] * m,
                             values[3].values[j] * m);
        }
      }
#pragma unroll
      for (int j = 0; j < kOwn; ++j)
        reinterpret_cast<u32*>(shared.pieces + piece_at(own_column() + j, own_row() / 8))[half] =
            columns[j] & inside;
    }
  }

  /// The bytes of the first `rows` of four rows. Zeros outside must stay zeros, also times NaN.
  SLUICE_DEVICE static u32 inside_of(int rows) {
    return rows >= 4 ? ~0u : rows <= 0 ? 0 : (1u << 8 * rows) - 1;
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
      // Both pieces lie side by side, in either order.
      const u64* const pieces = shared.pieces + (piece_at(line, 2 * pair) & ~1);
      const u64 first_piece = pieces[0], second = pieces[1];
      const bool turned = line / kOwn % 2 != 0;
      const u64 low = turned ? second : first_piece, high = turned ? first_piece : second;
      const u32 words[4] = {static_cast<u32>(low), static_cast<u32>(low >> 32), static_cast<u32>(high),
                            static_cast<u32>(high >> 32)};
      Arith::store(p.columns_t + column * p.columns_t_ld + i64{tile.row} * kBothTile + 16 * pair, words);
    }
  }

  /// The cast step. It goes backwards through the tiles, so that L2 still has those that amax read last.
  SLUICE_DEVICE void cast() const {
    constexpr bool kLooks = !kTensor && !kWholeRows;
    const bool sums = p.sums != nullptr;
    const u32 of_matrix = kTensor ? Arith::read(p.amaxes) : 0;
    Part part;
    Walk walk{*this, true};
    walk.begin();
    for (; walk.take(part); walk.index += gridDim.x) {
      const Tile tile = walk.tile();
      const u32 of_line = kWholeRows ? amax_read(line_of(tile)) : of_matrix;
      if constexpr (kLooks) look(part);
      if (sums) add(part);
      if (kLooks || sums) __syncthreads();
      find_multipliers(tile, of_line);
      if (sums) store_sums(tile);
      __syncthreads();
      walk.start_next();
      cast_tile(tile, part);
      __syncthreads();
      if (p.columns_t != nullptr) store_columns(tile);
      if (kLooks || sums) __syncthreads();
    }
  }
};

template <BothConfig kConfig, class Arith>
SLUICE_DEVICE void run_both(const BothParams& params) {
  // Two CTAs share an SM's 228 KB; each keeps 1 KB for itself.
  static_assert(!is_16bit(kConfig.input) ||
                2 * (both_ring_bytes(kConfig.input, kConfig.source) + sizeof(BothShared) + 1024) <=
                    228 * 1024);
  __shared__ BothShared shared;
  const BothQuantizer<kConfig, Arith> quantizer{{params}, shared};
  if constexpr (kConfig.step == BothStep::amax)
    quantizer.amax();
  else
    quantizer.cast();
}

}  // namespace sluice::quantize
