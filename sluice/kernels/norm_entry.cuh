// SPDX-License-Identifier: Apache-2.0
// The norm kernels on the GPU: 16-byte loads of data that is read once, and the conversions of
// device/element.cuh. Launched by run/ops/norm.cc.
#pragma once

#include <sluice/device/element.cuh>
#include <sluice/device/launch_steps.cuh>
#include <sluice/device/row_team.cuh>
#include <sluice/kernels/norm.cuh>

namespace sluice::norm {

struct DeviceArith : LaunchSteps {
  template <u32 kSlots>
  using Team = RowTeam<kSlots>;

  /// Loads 16 bytes, or zeros if not `inside`. It has no branch, which would delay later loads. It does not
  /// use ld.global.nc: data of an earlier launch must be read after the PDL wait.
  SLUICE_DEVICE static Words load_words(const void* address, bool inside) {
    Words w{};
    asm volatile(
        "{\n.reg .pred inside;\nsetp.ne.u32 inside, %5, 0;\n"
        "@inside ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
        : "+r"(w.words[0]), "+r"(w.words[1]), "+r"(w.words[2]), "+r"(w.words[3])
        : "l"(address), "r"(static_cast<u32>(inside)));
    return w;
  }
  /// Loads 16 bytes that no launch writes, before the PDL wait. It does not use ld.global.nc either, because
  /// ptxas moves such loads down behind the wait.
  SLUICE_DEVICE static Words load_constant_words(const void* address, bool inside) {
    Words w{};
    asm volatile(
        "{\n.reg .pred inside;\nsetp.ne.u32 inside, %5, 0;\n"
        "@inside ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
        : "+r"(w.words[0]), "+r"(w.words[1]), "+r"(w.words[2]), "+r"(w.words[3])
        : "l"(address), "r"(static_cast<u32>(inside))
        : "memory");
    return w;
  }
  /// Keeps the compiler from computing values from `w` before this point. Otherwise it unpacks gamma before
  /// the row's loads, which takes twice the registers and waits for gamma first.
  SLUICE_DEVICE static void keep(Words& w) {
    asm volatile("" : "+r"(w.words[0]), "+r"(w.words[1]), "+r"(w.words[2]), "+r"(w.words[3]));
  }
  SLUICE_DEVICE static u16 load_bits(const u16* address) {
    u16 bits;
    asm volatile("ld.global.u16 %0, [%1];" : "=h"(bits) : "l"(address));
    return bits;
  }
  SLUICE_DEVICE static float load_float(const float* address) {
    float value;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(address));
    return value;
  }

  template <DType kType>
  SLUICE_DEVICE static u32 pack_16bit(float low, float high) {
    return sluice::pack_16bit<kType>(low, high);
  }
  template <DType kType>
  SLUICE_DEVICE static void unpack_16bit(u32 packed, float& low, float& high) {
    const Pair pair = sluice::unpack_16bit<kType>(packed);
    low = pair.x;
    high = pair.y;
  }
  SLUICE_DEVICE static u32 pack(float low, float high) { return pack_e4m3(low, high); }

  SLUICE_DEVICE static void store(u8* target, const u32 (&words)[4]) {
    *reinterpret_cast<uint4*>(target) = uint4{words[0], words[1], words[2], words[3]};
  }
  SLUICE_DEVICE static void store(u8* target, const u32 (&words)[2]) {
    *reinterpret_cast<uint2*>(target) = uint2{words[0], words[1]};
  }

  /// a * b + c, rounded once in every build; the compiler may not round the product separately.
  SLUICE_DEVICE static float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
  SLUICE_DEVICE static float inverse_root(float x) { return __frsqrt_rn(x); }
  /// Sums several values together, so that their shuffles overlap.
  template <int kValues>
  SLUICE_DEVICE static void sum_of_warp(float (&values)[kValues]) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
#pragma unroll
      for (float& value : values) value += __shfl_xor_sync(~0u, value, distance);
  }
  SLUICE_DEVICE static u32 largest_of_warp(u32 bits) {
    return __reduce_max_sync(~0u, bits);
  }
};

}  // namespace sluice::norm
