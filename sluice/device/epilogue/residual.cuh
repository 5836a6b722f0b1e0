// SPDX-License-Identifier: Apache-2.0
// C, which the epilogue adds. It is loaded a few columns ahead in its own type, and converted where it is
// added. Loaded where it is used, each element would have the latency of L2
// (docs/findings/heavy-epilogues.md).
#pragma once

#include <sluice/spec/params.h>
#include <sluice/spec/smem_layout.h>
#include <sluice/device/element.cuh>
#include <sluice/device/epilogue/element_wise.cuh>
#include <sluice/device/ptx/global.cuh>

namespace sluice {

/// Two neighbouring elements of C, in C's type.
template <DType kType>
struct ResidualPair {
  u32 words[bytes_of(kType) / 2] = {};

  SLUICE_DEVICE Pair value() const {
    if constexpr (kType == DType::fp32)
      return {__uint_as_float(words[0]), __uint_as_float(words[1])};
    else
      return unpack_16bit<kType>(words[0]);
  }
};

/// Rows g and g + 8 of C for one fragment, from a column of D on.
template <Epilogue kEpilogue>
class ResidualRows {
  static constexpr DType kType = kEpilogue.c_type;

 public:
  using Pairs = ResidualPair<kType>[2];  // rows g, g + 8

  /// `span`: number of columns that will be read.
  SLUICE_DEVICE ResidualRows(const GemmParams& params, const Position& at, int span)
      : columns_(params.n - at.column) {
    const i64 index = at.batch * params.c_batch_stride + at.row * params.c_ld + at.column;
    const u8* const upper = static_cast<const u8*>(params.c) + index * bytes_of(kType);
    const u8* const lower = upper + 8 * params.c_ld * bytes_of(kType);
    rows_[0] = params.c != nullptr && at.row < params.m ? upper : nullptr;
    rows_[1] = params.c != nullptr && at.row + 8 < params.m ? lower : nullptr;
    constexpr u64 kPair = 2 * bytes_of(kType);
    in_pairs_ =
        columns_ >= span && (reinterpret_cast<u64>(upper) | reinterpret_cast<u64>(lower)) % kPair == 0;
  }

  /// Reads the pair at `column` (even, relative to the first column); zeros outside C.
  SLUICE_DEVICE void read(int column, Pairs& pairs) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      pairs[half] = {};
      if (rows_[half] == nullptr) continue;
      const u8* const at = rows_[half] + column * bytes_of(kType);
      if (in_pairs_)
        ptx::load_global_words(at, pairs[half].words);
      else
        read_one_by_one(at, column, pairs[half]);
    }
  }

 private:
  SLUICE_DEVICE void read_one_by_one(const u8* at, int column, ResidualPair<kType>& pair) const {
    const float first = column < columns_ ? load_element<kType>(at, 0) : 0.0f;
    const float second = column + 1 < columns_ ? load_element<kType>(at, 1) : 0.0f;
    if constexpr (kType == DType::fp32) {
      pair.words[0] = __float_as_uint(first);
      pair.words[1] = __float_as_uint(second);
    } else {
      pair.words[0] = pack_16bit<kType>(first, second);
    }
  }

  const u8* rows_[2];  // nullptr: the row is outside C
  int columns_;
  bool in_pairs_;
};

/// Prefetches a group's part of C into L2 while the tile is multiplied. `row`: the group's first row of D.
template <KernelConfig kConfig>
SLUICE_DEVICE void prefetch_residual(const GemmParams& params, const Tile& own, int row, int thread) {
  constexpr int kElement = bytes_of(kConfig.epilogue.c_type), kLine = 128;
  if (params.c == nullptr) return;
  const int columns = min(own_columns(kConfig), params.n - own.n_offset);
#pragma unroll
  for (int first = 0; first < group_rows(kConfig); first += kWarpgroupThreads) {
    const int r = row + first + thread;
    if (first + thread >= group_rows(kConfig) || r >= params.m) return;
    const i64 index = own.batch * params.c_batch_stride + r * params.c_ld + own.n_offset;
    const u8* const begin = static_cast<const u8*>(params.c) + index * kElement;
    for (int byte = 0; byte < columns * kElement; byte += kLine) ptx::prefetch_to_l2(begin + byte);
  }
}

}  // namespace sluice
