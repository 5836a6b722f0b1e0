// SPDX-License-Identifier: Apache-2.0
// The quantising kernels on the GPU: sixteen-byte loads that are read once, and the conversions of
// device/element.cuh. Launched by host/quantize.cc.
#pragma once

#include <sluice/device/element.cuh>
#include <sluice/device/epilogue/activation.cuh>
#include <sluice/device/row_team.cuh>
#include <sluice/device/warm.cuh>
#include <sluice/kernels/quantize.cuh>

namespace sluice::quantize {

/// A kernel that waits reads what an earlier launch writes: not by the read-only path, whose loads the
/// compiler may move up over the wait.
template <Wait kWait>
struct DeviceArith {
  using Team = RowTeam;

  template <DType kType>
  SLUICE_DEVICE static float load_element(const void* base, i64 index) {
    return sluice::load_element<kType>(base, index);
  }

  SLUICE_DEVICE static uint4 load_16_bytes(const void* address) {
    uint4 words;
    if constexpr (kWait == Wait::none)
      asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
          : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
          : "l"(address));
    else
      asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                   : "l"(address));
    return words;
  }

  template <DType kType>
  SLUICE_DEVICE static float half_of(u32 word, int index) {
    const u16 bits = static_cast<u16>(word >> (16 * index));
    if constexpr (kType == DType::bf16) return __uint_as_float(static_cast<u32>(bits) << 16);
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }

  template <DType kType>
  SLUICE_DEVICE static void load_chunk(const void* base, i64 index, float* values) {
    const u8* address = static_cast<const u8*>(base) + index * bytes_of(kType);
    if constexpr (kType == DType::fp32) {
      const uint4 low = load_16_bytes(address), high = load_16_bytes(address + 16);
      const u32 words[] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (int i = 0; i < 8; ++i) values[i] = __uint_as_float(words[i]);
    } else {
      const uint4 loaded = load_16_bytes(address);
      const u32 words[] = {loaded.x, loaded.y, loaded.z, loaded.w};
#pragma unroll
      for (int i = 0; i < 8; ++i) values[i] = half_of<kType>(words[i / 2], i % 2);
    }
  }

  SLUICE_DEVICE static float silu(float x) {
    return activate<Activation::silu>(x);
  }

  SLUICE_DEVICE static u32 pack(float low, float high) {
    return pack_e4m3(low, high);
  }

  SLUICE_DEVICE static void store_words(u8* target, const u32* words) {
    *reinterpret_cast<uint2*>(target) = uint2{words[0], words[1]};
  }

  SLUICE_DEVICE static u32 largest_of_warp(u32 bits) {
    return __reduce_max_sync(~0u, bits);
  }

  SLUICE_DEVICE static void launch_dependents() {
    ptx::launch_dependents();
  }
  SLUICE_DEVICE static void wait_for_prerequisites() {
    ptx::wait_for_prerequisites();
  }
  SLUICE_DEVICE static void warm(const WarmRange& range, u32 cta, u32 ctas) {
    sluice::warm(range, cta, ctas);
  }

  /// Written by the kernel before, so not through the read-only path.
  SLUICE_DEVICE static u32 read(const u32* address) {
    return *static_cast<const volatile u32*>(address);
  }
};

}  // namespace sluice::quantize
