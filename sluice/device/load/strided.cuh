// SPDX-License-Identifier: Apache-2.0
// Loads operands that TMA cannot address: 16-bit elements at any address, with any stride. kStridedWarps
// warps write them where TMA would have written them (load/tma_tile.cuh): lines of 64 elements (128 bytes),
// whose 16-byte pieces are swizzled by the line. A K-major tile has one line per row. An MN-major tile has
// blocks of 64 rows with one line per k.
//
// Every load is 16 aligned bytes. A lane loads the two that contain its piece and combines them with shifts.
// Lines whose numbers differ by 8 have the same misalignment, so a warp handles four such lines at once. Only
// bytes between the operand's first element, rounded down to 16 bytes, and its last, rounded up, are read;
// allocations are aligned to more than that. Elements outside the matrix become zeros. Narrower copies would
// need several times the instructions (docs/decisions/0024-any-strides.md).
#pragma once

#include <sluice/spec/loaded_rows.h>
#include <sluice/spec/params.h>
#include <sluice/device/optional_member.cuh>
#include <sluice/device/ptx/global.cuh>
#include <sluice/device/ptx/shared.cuh>

namespace sluice {

inline constexpr int kBatchGroups = 4;   // groups of four lines that a warp loads before it writes the first
inline constexpr int kStridedAhead = 4;  // distance of the L2 prefetch, in k-tiles

/// Registers of a batch in flight: the loaded bytes that contain this lane's pieces.
struct StridedBatch {
  u32 words[kBatchGroups][2][4];
};

/// This thread's warp, counted among the warps that load strided operands, and its lane.
SLUICE_DEVICE int strided_warp() {
  return static_cast<int>(threadIdx.x) / 32 - 1;
}
SLUICE_DEVICE int strided_lane() {
  return static_cast<int>(threadIdx.x) % 32;
}

/// Hides where a value comes from, so that the compiler computes with it here. Otherwise the compiler keeps
/// derived values for every batch, and spills.
SLUICE_DEVICE void hide(int& value) {
  asm volatile("" : "+r"(value));
}

/// One operand's tile, from the view of one thread.
template <KernelConfig kConfig, bool kIsA>
class StridedTile {
  static constexpr bool kAlongK = (kIsA ? kConfig.a_major : kConfig.b_major) == Major::k;
  static constexpr bool kGated = !kIsA && kConfig.epilogue.gated;
  static constexpr int kRows = kIsA ? kConfig.tile.m : kConfig.tile.n;
  static constexpr int kBlocks = kAlongK ? 1 : ceil_div(kRows, kMnBlock);
  static constexpr int kLines = kAlongK ? kRows : kConfig.tile.k;  // lines per block
  static constexpr int kGroups =
      kLoadRows * ceil_div(kLines, 4 * kLoadRows);  // groups of four lines per block
  static constexpr int kWarpGroups = ceil_div(kBlocks * kGroups, kStridedWarps);

 public:
  static constexpr int kBatches = ceil_div(kWarpGroups, kBatchGroups);

  SLUICE_DEVICE void begin(const GemmParams& params, const Tile& tile) {
    const i64 start = tile.batch * (kIsA ? params.a_batch_stride : params.b_batch_stride);
    base_ = static_cast<const u16*>(kIsA ? params.a : params.b) + start;
    ld_ = kIsA ? params.a_ld : params.b_ld;
    first_ = kIsA ? tile.m_offset : tile.n_offset;
    rows_ = kIsA ? params.m : params.n;
    depth_ = params.k;
  }

  /// Loads batch `batch` of a k-tile.
  SLUICE_DEVICE void fetch(int batch, int k_tile, StridedBatch& to) const {
    hide(batch);
    const int k = k_tile * kConfig.tile.k;
    if (is_whole(k))
      fetch_pieces<true>(batch, k, to);
    else
      fetch_pieces<false>(batch, k, to);
  }

  /// Writes a batch of loaded elements to the stage. `stage`: address of this operand in the stage.
  SLUICE_DEVICE void write(int batch, int k_tile, u32 stage, StridedBatch& from) const {
    hide(batch);
    const int k = k_tile * kConfig.tile.k;
    const bool whole = is_whole(k);
#pragma unroll
    for (int i = 0; i < kBatchGroups; ++i) {
      const Piece piece = piece_of(batch, i);
      // First rows of tiles and k-tiles are multiples of 8, so only the line's number affects its
      // misalignment.
      const u32 behind =
          static_cast<u32>(reinterpret_cast<u64>(base_)) / 2 + piece.line % 8 * static_cast<u32>(ld_);
      u32 words[4];
      shift(from.words[i], behind % 8, words);
      if (!whole) cut(elements_of(piece, k), words);
      const u32 line = stage + (piece.block * kLines + piece.line) * kSwizzleRowBytes;
      if (piece.exists) ptx::store_shared_v4(line + (piece.column / 8 ^ piece.line % 8) * 16, words);
    }
  }

  /// Prefetches lines of a later k-tile into L2. Loads from L2 have a third of HBM's latency, and only few
  /// can be in flight.
  SLUICE_DEVICE void prefetch(int k_tile) const {
    int k = k_tile * kConfig.tile.k;
    hide(k);
    if (k >= depth_) return;
#pragma unroll 1
    for (int begin = 0; begin < kBlocks * kLines; begin += 32 * kStridedWarps) {
      int line = begin + strided_warp() * 32 + strided_lane();
      hide(line);
      const int row = first_ + (kAlongK ? line : line / kLines * kMnBlock);
      const int outer = kAlongK ? row : k + line % kLines;
      if (line >= kBlocks * kLines || row >= rows_ || (!kAlongK && outer >= depth_)) continue;
      const i64 outer_at = kGated ? gated_row(outer, rows_) : outer;
      ptx::prefetch_to_l2(base_ + outer_at * ld_ + (kAlongK ? k : row));
    }
  }

 private:
  /// The 16 bytes of a line that one lane handles. A warp's four lines differ by 8, and eight lanes share a
  /// line.
  struct Piece {
    int block, line, column;
    bool exists;
  };
  static SLUICE_DEVICE Piece piece_of(int batch, int i) {
    const int group = (batch * kBatchGroups + i) * kStridedWarps + strided_warp();
    const int block = kBlocks == 1 ? 0 : quotient(group, kGroups), rest = group - block * kGroups;
    const int line = rest / 8 * 32 + rest % 8 + strided_lane() / 8 * 8;
    return {block, line, strided_lane() % 8 * 8, block < kBlocks && line < kLines};
  }
  /// True if the whole k-tile is inside the matrix.
  SLUICE_DEVICE bool is_whole(int k) const {
    const int rows = kAlongK ? kRows : kBlocks * kMnBlock;
    return first_ + rows <= rows_ && k + kConfig.tile.k <= depth_;
  }
  /// Elements of the line inside the matrix, from the piece on.
  SLUICE_DEVICE int elements_of(const Piece& piece, int k) const {
    return (kAlongK ? depth_ - k : rows_ - first_ - piece.block * kMnBlock) - piece.column;
  }
  template <bool kWhole>
  SLUICE_DEVICE void fetch_pieces(int batch, int k, StridedBatch& to) const {
#pragma unroll
    for (int i = 0; i < kBatchGroups; ++i) {
      const Piece piece = piece_of(batch, i);
      const int outer = (kAlongK ? first_ : k) + piece.line;
      const int inner = kAlongK ? k : first_ + piece.block * kMnBlock;
      const i64 outer_at = kGated ? gated_row(outer, rows_) : outer;
      const u64 address = reinterpret_cast<u64>(base_ + outer_at * ld_ + inner + piece.column);
      const int behind =
          static_cast<int>(address % 16) / 2;  // elements between the 16-byte boundary and the piece
      const u64 first = address & ~u64{15};
      if constexpr (kWhole) {
        const u64 from = piece.exists ? first : reinterpret_cast<u64>(base_) & ~u64{15};
        ptx::load_global_words(reinterpret_cast<const void*>(from), to.words[i][0]);
        // Both loads are unconditional: if the piece is 16-byte aligned, the second repeats the first.
        const u64 second = piece.exists && behind != 0 ? from + 16 : from;
        ptx::load_global_words(reinterpret_cast<const void*>(second), to.words[i][1]);
      } else {
        const int elements = elements_of(piece, k);
        const bool inside = piece.exists && outer < (kAlongK ? rows_ : depth_);
        const void* const from = reinterpret_cast<const void*>(first);
        const void* const second = reinterpret_cast<const void*>(first + 16);
        ptx::load_global_words_if(from, inside && elements > 0, to.words[i][0]);
        ptx::load_global_words_if(second, inside && behind != 0 && elements > 8 - behind, to.words[i][1]);
      }
    }
  }
  /// Extracts four words, beginning with element `behind`.
  static SLUICE_DEVICE void shift(const u32 (&from)[2][4], u32 behind, u32 (&to)[4]) {
    u32 by_two[6], by_one[5];
#pragma unroll
    for (int i = 0; i < 6; ++i)
      by_two[i] = (behind & 4) != 0 ? from[(i + 2) / 4][(i + 2) % 4] : from[i / 4][i % 4];
#pragma unroll
    for (int i = 0; i < 5; ++i) by_one[i] = (behind & 2) != 0 ? by_two[i + 1] : by_two[i];
    const u32 bits = behind % 2 * 16;
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = __funnelshift_r(by_one[i], by_one[i + 1], bits);
  }
  /// Clears all but the first `elements` elements.
  static SLUICE_DEVICE void cut(int elements, u32 (&words)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (elements <= 2 * i) words[i] = 0;
      if (elements == 2 * i + 1) words[i] &= 0xffff;
    }
  }

  const u16* base_;  // matrix of the batch
  i64 ld_;
  int first_, rows_, depth_;  // first row of the tile, rows of the matrix, k
};

/// The strided operands of a tile. All lanes of kStridedWarps warps call every function.
template <KernelConfig kConfig>
class StridedLoader {
  static constexpr bool kHasA = kConfig.load_a == Load::strided, kHasB = kConfig.load_b == Load::strided;
  using A = StridedTile<kConfig, true>;
  using B = StridedTile<kConfig, false>;
  static constexpr int kBatchesA = kHasA ? A::kBatches : 0;
  static constexpr int kBatches = kBatchesA + (kHasB ? B::kBatches : 0);

 public:
  SLUICE_DEVICE void begin(const GemmParams& params, const Tile& tile) {
    if constexpr (kHasA) a_.begin(params, tile);
    if constexpr (kHasB) b_.begin(params, tile);
  }
  /// Loads the first batch of a k-tile, so that its latency overlaps the wait for a free stage.
  SLUICE_DEVICE void fetch(int k_tile) {
    if constexpr (kHasA) a_.prefetch(k_tile + kStridedAhead);
    if constexpr (kHasB) b_.prefetch(k_tile + kStridedAhead);
    fetch_batch(0, k_tile, even_);
  }
  /// Writes the k-tile to a stage, whose A and B begin at these addresses. Each batch is in flight while the
  /// previous one is written. No batch is copied between registers, because that would wait for its loads.
  SLUICE_DEVICE void write(u32 stage_a, u32 stage_b, int k_tile) {
    StridedBatch odd;
#pragma unroll 1
    for (int batch = 0; batch < kBatches; batch += 2) {
      if (batch + 1 < kBatches) fetch_batch(batch + 1, k_tile, odd);
      write_batch(batch, k_tile, stage_a, stage_b, even_);
      if (batch + 2 < kBatches) fetch_batch(batch + 2, k_tile, even_);
      if (batch + 1 < kBatches) write_batch(batch + 1, k_tile, stage_a, stage_b, odd);
    }
  }

 private:
  SLUICE_DEVICE void fetch_batch(int batch, int k_tile, StridedBatch& to) const {
    if constexpr (!kHasB) {
      a_.fetch(batch, k_tile, to);
    } else if constexpr (!kHasA) {
      b_.fetch(batch, k_tile, to);
    } else {
      if (batch < kBatchesA)
        a_.fetch(batch, k_tile, to);
      else
        b_.fetch(batch - kBatchesA, k_tile, to);
    }
  }
  SLUICE_DEVICE void write_batch(int batch, int k_tile, u32 stage_a, u32 stage_b, StridedBatch& from) const {
    if constexpr (!kHasB) {
      a_.write(batch, k_tile, stage_a, from);
    } else if constexpr (!kHasA) {
      b_.write(batch, k_tile, stage_b, from);
    } else {
      if (batch < kBatchesA)
        a_.write(batch, k_tile, stage_a, from);
      else
        b_.write(batch - kBatchesA, k_tile, stage_b, from);
    }
  }

  Optional<kHasA, A> a_;
  Optional<kHasB, B> b_;
  StridedBatch even_;  // loaded by fetch(), written by write()
};

}  // namespace sluice
