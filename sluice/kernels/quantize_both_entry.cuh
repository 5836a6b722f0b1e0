// SPDX-License-Identifier: Apache-2.0
// kernels/quantize_both.cuh on the GPU: the loads of quantize_entry.cuh, and conversions to either fp8 type.
// Launched by run/ops/quantize_both.cc.
#pragma once

#include <sluice/kernels/quantize_both.cuh>
#include <sluice/kernels/quantize_entry.cuh>

namespace sluice::quantize {

struct BothArith : DeviceArith<Wait::none> {
  /// Two codes in 16 bits, `low` at the lower address; saturates, and keeps NaN.
  template <DType kType>
  SLUICE_DEVICE static u32 pack_fp8(float low, float high) {
    if constexpr (kType == DType::e4m3) return pack_e4m3(low, high);
    u16 packed;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(high), "f"(low));
    return packed;
  }
  /// The larger of each pair of signed 16-bit integers.
  SLUICE_DEVICE static u32 larger_pair(u32 a, u32 b) {
    u32 result;
    asm("max.s16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    return result;
  }
  /// Four bytes of a (0 to 3) and b (4 to 7), one per digit of `which`, the lowest first.
  SLUICE_DEVICE static u32 bytes_of(u32 a, u32 b, u32 which) { return __byte_perm(a, b, which); }
};

}  // namespace sluice::quantize
