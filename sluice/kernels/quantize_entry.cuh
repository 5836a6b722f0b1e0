// SPDX-License-Identifier: Apache-2.0
// The quantising kernels on the GPU: 16-byte loads of data that is read once, and the conversions of
// device/element.cuh. Launched by run/ops/quantize.cc.
#pragma once

#include <sluice/device/element.cuh>
#include <sluice/device/epilogue/activation.cuh>
#include <sluice/device/launch_steps.cuh>
#include <sluice/device/row_team.cuh>
#include <sluice/kernels/quantize.cuh>

namespace sluice::quantize {

/// A kernel with a PDL wait reads data of an earlier launch. It does not use ld.global.nc, because the
/// compiler may move such loads up before the wait.
template <Wait kWait>
struct DeviceArith : LaunchSteps {
  template <u32 kSlots>
  using Team = RowTeam<kSlots>;
  /// A chunk, as in memory.
  template <DType kType>
  struct Raw {
    uint4 words[kType == DType::fp32 ? 2 : 1];
  };

  template <DType kType>
  SLUICE_DEVICE static float load_element(const void* base, i64 index) {
    return sluice::load_element<kType>(base, index);
  }

  /// Loads 16 bytes, or zeros if not `inside`. It has no branch, which would delay later loads.
  SLUICE_DEVICE static uint4 load_16_bytes(const void* address, bool inside) {
    uint4 words{0, 0, 0, 0};
    if constexpr (kWait == Wait::none)
      asm("{\n.reg .pred inside;\nsetp.ne.u32 inside, %5, 0;\n"
          "@inside ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
          : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w)
          : "l"(address), "r"(static_cast<u32>(inside)));
    else
      asm volatile(
          "{\n.reg .pred inside;\nsetp.ne.u32 inside, %5, 0;\n"
          "@inside ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
          : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w)
          : "l"(address), "r"(static_cast<u32>(inside)));
    return words;
  }

  /// Loads an entry of a table of rows, or 0 if not `inside`, without a branch.
  SLUICE_DEVICE static i32 load_index(const i32* address, bool inside) {
    i32 index = 0;
    asm volatile("{\n.reg .pred inside;\nsetp.ne.u32 inside, %2, 0;\n@inside ld.global.s32 %0, [%1];\n}"
                 : "+r"(index)
                 : "l"(address), "r"(static_cast<u32>(inside)));
    return index;
  }
  SLUICE_DEVICE static u16 load_bits(const u16* address) {
    u16 bits;
    asm volatile("ld.global.u16 %0, [%1];" : "=h"(bits) : "l"(address));
    return bits;
  }
  /// The words of eight elements of 16 bits, as in memory.
  template <DType kType>
  SLUICE_DEVICE static void words_of(const Raw<kType>& raw, u32 (&words)[4]) {
    words[0] = raw.words[0].x, words[1] = raw.words[0].y, words[2] = raw.words[0].z,
    words[3] = raw.words[0].w;
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
  SLUICE_DEVICE static Raw<kType> load_raw(const void* base, i64 index, bool inside) {
    const u8* address = static_cast<const u8*>(base) + index * bytes_of(kType);
    Raw<kType> raw;
    raw.words[0] = load_16_bytes(address, inside);
    if constexpr (kType == DType::fp32) raw.words[1] = load_16_bytes(address + 16, inside);
    return raw;
  }

  template <DType kType>
  SLUICE_DEVICE static void unpack(const Raw<kType>& raw, float* values) {
    if constexpr (kType == DType::fp32) {
      const uint4 &low = raw.words[0], &high = raw.words[1];
      const u32 words[] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (int i = 0; i < 8; ++i) values[i] = __uint_as_float(words[i]);
    } else {
      const u32 words[] = {raw.words[0].x, raw.words[0].y, raw.words[0].z, raw.words[0].w};
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

  template <DType kType>
  SLUICE_DEVICE static u32 pack_16bit(float low, float high) {
    return sluice::pack_16bit<kType>(low, high);
  }

  SLUICE_DEVICE static void store_words(u8* target, const u32* words) {
    *reinterpret_cast<uint2*>(target) = uint2{words[0], words[1]};
  }
  SLUICE_DEVICE static void store(u8* target, const u32 (&words)[4]) {
    *reinterpret_cast<uint4*>(target) = uint4{words[0], words[1], words[2], words[3]};
  }

  SLUICE_DEVICE static u32 largest_of_warp(u32 bits) {
    return __reduce_max_sync(~0u, bits);
  }

  /// Reads a word that the previous kernel has written, so without ld.global.nc.
  SLUICE_DEVICE static u32 read(const u32* address) {
    return *static_cast<const volatile u32*>(address);
  }
};

}  // namespace sluice::quantize
