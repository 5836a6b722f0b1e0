// SPDX-License-Identifier: Apache-2.0
// The products of one stage: WGMMA with both operands in shared memory, for the rows of one math warpgroup.
#pragma once

#include <sluice/spec/smem_layout.h>
#include <sluice/device/ptx/wgmma.cuh>

namespace sluice {

/// Accumulator of one warpgroup: values[wave][...] in the fragment order of ptx::Wgmma.
template <int kWaves, int kN>
struct Accumulator {
  float values[kWaves][kN / 2];

  SLUICE_DEVICE void clear() {
#pragma unroll
    for (int wave = 0; wave < kWaves; ++wave)
#pragma unroll
      for (int i = 0; i < kN / 2; ++i) values[wave][i] = 0.0f;
  }
  SLUICE_DEVICE void pin() {
#pragma unroll
    for (int wave = 0; wave < kWaves; ++wave) ptx::pin_registers(values[wave]);
  }

  /// Copies kCount sums of `wave` from `first` (a multiple of kCount) on. Registers have no addresses. With
  /// kIndexes, for unrolled loops, the indexes are constants and the copy vanishes. Without, it is a tree of
  /// branches. In unrolled loops the tree would result in the same code, but take NVRTC seconds.
  template <int kCount, bool kIndexes>
  SLUICE_DEVICE void copy(int wave, int first, float (&out)[kCount]) const {
    static_assert(kN / 2 % kCount == 0);
    if constexpr (kIndexes) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) out[i] = values[wave][first + i];
    } else {
      copy_by_branches((wave * (kN / 2) + first) / kCount, out);
    }
  }

 private:
  template <int kCount, int kBegin = 0, int kEnd = kWaves* kN / 2 / kCount>
  SLUICE_DEVICE void copy_by_branches(int index, float (&out)[kCount]) const {
    if constexpr (kEnd - kBegin == 1) {
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        out[i] = values[kBegin * kCount / (kN / 2)][kBegin * kCount % (kN / 2) + i];
    } else {
      constexpr int kMiddle = (kBegin + kEnd) / 2;
      if (index < kMiddle)
        copy_by_branches<kCount, kBegin, kMiddle>(index, out);
      else
        copy_by_branches<kCount, kMiddle, kEnd>(index, out);
    }
  }
};

template <KernelConfig kConfig>
struct WgmmaSs {
  static constexpr int kSteps = kConfig.tile.k / mma_k(kConfig.a);
  // Bytes per step of k: 32 along a K-major row, or 16 rows of an MN-major block.
  static constexpr int kStepBytesA = kConfig.a_major == Major::k ? 32 : 16 * kSwizzleRowBytes;
  static constexpr int kStepBytesB = kConfig.b_major == Major::k ? 32 : 16 * kSwizzleRowBytes;
  static constexpr int kEightRows = 8 * kSwizzleRowBytes;
  static constexpr int kMnBlockBytes = kConfig.tile.k * kSwizzleRowBytes;
  static constexpr int kWaveBytes =
      kWaveRows * kSwizzleRowBytes;  // 64 rows of A, the same size as an MN-major block
  static_assert(kConfig.a_major == Major::k || kWaveBytes == kMnBlockBytes);

  /// Issues all steps of one stage as one group. `a` and `b`: shared addresses of the rows of A and B that
  /// `sums` covers.
  template <int kWaves, int kN>
  static SLUICE_DEVICE void issue(Accumulator<kWaves, kN>& sums, u32 a, u32 b, bool fresh) {
    using Instruction = ptx::Wgmma<kConfig.a, kConfig.b, kN>;
    sums.pin();
    ptx::wgmma_fence();
    const u64 desc_a = ptx::smem_descriptor(a, kMnBlockBytes, kEightRows);
    const u64 desc_b = ptx::smem_descriptor(b, kMnBlockBytes, kEightRows);
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int wave = 0; wave < kWaves; ++wave)
        Instruction::template mma<kConfig.a_major == Major::mn, kConfig.b_major == Major::mn>(
            sums.values[wave], desc_a + ((wave * kWaveBytes + step * kStepBytesA) >> 4),
            desc_b + ((step * kStepBytesB) >> 4), step != 0 || !fresh);
    ptx::wgmma_commit_group();
    sums.pin();
  }
};

}  // namespace sluice
