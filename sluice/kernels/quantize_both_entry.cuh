// SPDX-License-Identifier: Apache-2.0
// kernels/quantize_both.cuh on the GPU: the loads of quantize_entry.cuh, and conversions to either fp8 type.
// Launched by run/ops/training/quantize_both.cc.
#pragma once

#include <sluice/device/ptx/async_copy.cuh>
#include <sluice/device/ptx/half_pair.cuh>
#include <sluice/device/ptx/shared.cuh>
#include <sluice/kernels/quantize_both.cuh>
#include <sluice/kernels/quantize_entry.cuh>

namespace sluice::quantize {

struct BothArith : DeviceArith<Wait::none> {
  /// The shared address of 16 bytes of this thread's slot. Slots of neighbouring threads lie side by side.
  template <DType kType>
  SLUICE_DEVICE static u32 address_of(u32 slot, u32 word) {
    extern __shared__ __align__(16) u8 ring[];
    constexpr u32 kWords = bytes_of(kType) / 2;
    return ptx::shared_address(ring) + ((slot * kWords + word) * kQuantizeThreads + threadIdx.x) * 16;
  }
  /// Starts the copy of eight elements into a slot; zeros if not `inside`.
  template <DType kType>
  SLUICE_DEVICE static void start(u32 slot, const void* base, i64 index, bool inside) {
    const u8* from = static_cast<const u8*>(base) + index * bytes_of(kType);
#pragma unroll
    for (u32 word = 0; word < bytes_of(kType) / 2; ++word)
      ptx::copy_16_bytes_if(address_of<kType>(slot, word), from + 16 * word, inside);
  }
  SLUICE_DEVICE static void commit() {
    ptx::commit_copies();
  }
  /// Waits until at most kLeft commits of this thread are not complete.
  template <int kLeft>
  SLUICE_DEVICE static void wait() {
    ptx::wait_copies<kLeft>();
  }
  template <DType kType>
  SLUICE_DEVICE static Raw<kType> taken(u32 slot) {
    Raw<kType> raw;
#pragma unroll
    for (u32 word = 0; word < bytes_of(kType) / 2; ++word)
      ptx::load_shared_v4(address_of<kType>(slot, word), &raw.words[word].x);
    return raw;
  }
  SLUICE_DEVICE static float sigmoid(float x) {
    return __fdividef(1.0f, 1.0f + __expf(-x));
  }
  /// Eight values rounded to 16 bits, as in memory.
  template <DType kType>
  SLUICE_DEVICE static Raw<kType> packed(const float (&values)[8]) {
    Raw<kType> raw;
    raw.words[0] = {pack_16bit<kType>(values[0], values[1]), pack_16bit<kType>(values[2], values[3]),
                    pack_16bit<kType>(values[4], values[5]), pack_16bit<kType>(values[6], values[7])};
    return raw;
  }
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
    return ptx::larger_integer_pair(a, b);
  }
  /// Four bytes of a (0 to 3) and b (4 to 7), one per digit of `which`, the lowest first.
  SLUICE_DEVICE static u32 chosen_bytes(u32 a, u32 b, u32 which) {
    return __byte_perm(a, b, which);
  }
};

}  // namespace sluice::quantize
