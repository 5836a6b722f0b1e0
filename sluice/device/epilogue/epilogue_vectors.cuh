// SPDX-License-Identifier: Apache-2.0
// Row scales, column scales and the bias for one math group's part of a tile. They are copied to shared
// memory while the tile is multiplied, and the epilogue reads them there. Loaded from global memory where
// they are used, each would have the latency of L2 (docs/findings/heavy-epilogues.md).
// Buffer of a group: [scales of its rows] [scales of its columns] in fp32, if they are vectors, then the bias
// of its columns in its own type. For gated products the gate's columns come first, then those of "up".
#pragma once

#include <sluice/spec/params.h>
#include <sluice/spec/smem_layout.h>
#include <sluice/device/epilogue/element_wise.cuh>
#include <sluice/device/ptx/async_copy.cuh>
#include <sluice/device/ptx/shared.cuh>

namespace sluice {

template <KernelConfig kConfig>
struct EpilogueVectors {
  static constexpr bool kRows = kConfig.epilogue.scale_a == ScaleMode::vector;
  static constexpr bool kColumns = kConfig.epilogue.scale_b == ScaleMode::vector;
  static constexpr bool kBias = kConfig.epilogue.bias == Bias::column;
  static constexpr DType kBiasType = kConfig.epilogue.bias_type;

  u32 buffer;
  int thread;  // in the warpgroup

  /// Starts the copies. `row` and `column`: the group's first ones in the product. `vector`: which vector of
  /// scale_b and bias. Entries outside the product become zeros; with alpha = 0 all scales do.
  SLUICE_DEVICE void stage(const GemmParams& params, int row, int column, int vector) const {
    const i64 first_element = i64{vector} * params.n;
    const bool scaled = params.alpha != 0.0f;
    if constexpr (kRows) copy<group_rows(kConfig)>(buffer, params.scale_a, row, scaled ? params.m : 0);
    if constexpr (kColumns) {
      const auto copy_side = [&](int side, int first, int begin, int end) {
        copy<kSideColumns>(columns_buffer() + 4 * side * kSideColumns, params.scale_b + first_element + begin,
                           first, scaled ? end : 0);
      };
      for_each_side(params, column, copy_side);
    }
    if constexpr (kBias) {
      const auto copy_side = [&](int side, int first, int begin, int end) {
        copy_bias(side * kSideColumns,
                  static_cast<const u8*>(params.bias) + (first_element + begin) * kBiasBytes, first, end);
      };
      for_each_side(params, column, copy_side);
    }
  }
  /// Scales of group row `row` and of row + 8.
  SLUICE_DEVICE RowScales rows(int row) const {
    return {ptx::load_shared(buffer + 4 * row), ptx::load_shared(buffer + 4 * (row + 8))};
  }
  /// Scales of group columns `column`, which is even, and column + 1.
  SLUICE_DEVICE Pair columns(int column) const {
    Pair pair;
    ptx::load_shared_v2(columns_buffer() + 4 * column, pair.x, pair.y);
    return pair;
  }
  /// Bias of group columns `column` and column + 1.
  SLUICE_DEVICE Pair bias(int column) const {
    const u32 at = bias_buffer() + kBiasBytes * column;
    if constexpr (kBiasType != DType::fp32) return unpack_16bit<kBiasType>(ptx::load_shared_u32(at));
    Pair pair;
    ptx::load_shared_v2(at, pair.x, pair.y);
    return pair;
  }

 private:
  static constexpr bool kGated = kConfig.epilogue.gated;
  static constexpr int kSideColumns = own_outputs(kConfig);  // columns of the gate; without a gate, all
                                                             // columns
  static constexpr int kBiasBytes = bytes_of(kBiasType);

  SLUICE_DEVICE u32 columns_buffer() const { return buffer + (kRows ? 4 * group_rows(kConfig) : 0); }
  SLUICE_DEVICE u32 bias_buffer() const {
    return buffer + epilogue_vector_bytes(kConfig) - bias_bytes(kConfig);
  }

  /// Calls f(side, the group's first column on that side, index of the side's first element in a vector of n,
  /// columns of the side).
  template <class F>
  static SLUICE_DEVICE void for_each_side(const GemmParams& params, int column, const F& f) {
    if constexpr (kGated) {
      const int half = params.n / 2;
      f(0, column / 2, 0, half);
      f(1, column / 2, half, half);
    } else {
      f(0, column, 0, params.n);
    }
  }
  template <int kCount>
  SLUICE_DEVICE void copy(u32 to, const float* vector, int first, int end) const {
#pragma unroll
    for (int begin = 0; begin < kCount; begin += kWarpgroupThreads) {
      const int i = begin + thread;
      if (i < kCount) ptx::copy_4_bytes(to + 4 * i, vector + first + i, first + i < end ? 4 : 0);
    }
  }
  /// Copies the bias in words of one fp32 or two 16-bit values; the last word may be only half used. `to`: a
  /// column of the buffer. A 16-bit bias that is not word-aligned is copied value by value, which is slow but
  /// rare.
  SLUICE_DEVICE void copy_bias(int to, const u8* bias, int first, int end) const {
    constexpr int kInWord = 4 / kBiasBytes, kWords = kSideColumns / kInWord;
    const bool in_words = reinterpret_cast<u64>(bias) % 4 == 0;
#pragma unroll
    for (int begin = 0; begin < kWords; begin += kWarpgroupThreads) {
      const int word = begin + thread, column = first + word * kInWord;
      if (word >= kWords) break;
      const u32 at = bias_buffer() + kBiasBytes * to + 4 * word;
      const int count = min(max(end - column, 0), kInWord);
      if (kBiasBytes == 4 || in_words) {
        ptx::copy_4_bytes(at, bias + i64{column} * kBiasBytes, kBiasBytes * count);
      } else if constexpr (kBiasBytes == 2) {
        const float low = count > 0 ? load_element<kBiasType>(bias, column) : 0.0f;
        const float high = count > 1 ? load_element<kBiasType>(bias, column + 1) : 0.0f;
        ptx::store_shared_u32(at, pack_16bit<kBiasType>(low, high));
      }
    }
  }
};

}  // namespace sluice
