// SPDX-License-Identifier: Apache-2.0
// A scale for each row of A and for each column of B, for one math group's part of a tile: copied into shared
// memory while the products run, read from there by the epilogue. Read from global memory where they are
// needed, each would cost the way from L2 (docs/findings/heavy-epilogues.md).
// Buffer of a group: [rows of the group] [columns that it stores], fp32, of what is a vector; of gated
// products the columns of the gate, then those of "up".
#pragma once

#include <sluice/spec/params.h>
#include <sluice/spec/smem_layout.h>
#include <sluice/device/epilogue/element_wise.cuh>
#include <sluice/device/ptx/async_copy.cuh>
#include <sluice/device/ptx/shared.cuh>

namespace sluice {

template <KernelConfig kConfig>
struct ScaleVectors {
  static constexpr bool kRows = kConfig.epilogue.scale_a == ScaleMode::vector;
  static constexpr bool kColumns = kConfig.epilogue.scale_b == ScaleMode::vector;

  u32 buffer;
  int thread;  // in the warpgroup

  /// Begins the copies; `row`, `column`: of the product, the group's first ones. Past the edges, and with
  /// alpha = 0, come zeros.
  SLUICE_DEVICE void stage(const GemmParams& params, int row, int column) const {
    const bool wanted = params.alpha != 0.0f;
    if constexpr (kRows) copy<group_rows(kConfig)>(buffer, params.scale_a, row, wanted ? params.m : 0);
    if constexpr (kColumns && kConfig.epilogue.gated) {
      constexpr int kOutputs = own_outputs(kConfig);
      const int half = params.n / 2;
      copy<kOutputs>(columns_buffer(), params.scale_b, column / 2, wanted ? half : 0);
      copy<kOutputs>(columns_buffer() + 4 * kOutputs, params.scale_b + half, column / 2, wanted ? half : 0);
    } else if constexpr (kColumns) {
      copy<own_columns(kConfig)>(columns_buffer(), params.scale_b, column, wanted ? params.n : 0);
    }
  }
  /// `row`: in the group. Its scale and that of the row 8 below.
  SLUICE_DEVICE RowScales rows(int row) const {
    return {ptx::load_shared(buffer + 4 * row), ptx::load_shared(buffer + 4 * (row + 8))};
  }
  /// `column`: in the group's columns, even. Its scale and that of the next.
  SLUICE_DEVICE Pair columns(int column) const {
    Pair pair;
    ptx::load_shared_v2(columns_buffer() + 4 * column, pair.x, pair.y);
    return pair;
  }

 private:
  SLUICE_DEVICE u32 columns_buffer() const { return buffer + (kRows ? 4 * group_rows(kConfig) : 0); }
  template <int kCount>
  SLUICE_DEVICE void copy(u32 to, const float* vector, int first, int end) const {
#pragma unroll
    for (int begin = 0; begin < kCount; begin += kWarpgroupThreads) {
      const int i = begin + thread;
      if (i < kCount) ptx::copy_async(to + 4 * i, vector + first + i, first + i < end);
    }
  }
};

}  // namespace sluice
