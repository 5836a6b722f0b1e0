// SPDX-License-Identifier: Apache-2.0
// Element types on the device: loading one as float, and rounding two floats to a packed pair. Rounding is to
// nearest even; e4m3 saturates to 448 and keeps NaN (PTX ISA cvt.satfinite).
#pragma once

#include <sluice/spec/dtype.h>

namespace sluice {

/// Loads one element of an epilogue operand. `asm volatile` keeps the load in place. Otherwise the compiler
/// hoists the loads of all columns of a tile, or keeps those of one 64-row wave for the next, and spills.
template <DType kType>
SLUICE_DEVICE float load_element(const void* base, i64 index) {
  float value;
  if constexpr (kType == DType::fp32) {
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(static_cast<const float*>(base) + index));
  } else {
    static_assert(is_16bit(kType), "C and bias are bf16, fp16 or fp32 (spec/validate.h)");
    u16 bits;
    asm volatile("ld.global.u16 %0, [%1];" : "=h"(bits) : "l"(static_cast<const u16*>(base) + index));
    if constexpr (kType == DType::bf16)
      value = __uint_as_float(static_cast<u32>(bits) << 16);
    else
      asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  }
  return value;
}

/// Two 16-bit elements in one register, `low` at the lower address.
template <DType kType>
SLUICE_DEVICE u32 pack_16bit(float low, float high) {
  static_assert(is_16bit(kType));
  u32 packed;
  if constexpr (kType == DType::bf16)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

struct Pair {
  float x, y;
};

/// Unpacks two 16-bit elements; x is the one at the lower address.
template <DType kType>
SLUICE_DEVICE Pair unpack_16bit(u32 packed) {
  static_assert(is_16bit(kType));
  if constexpr (kType == DType::bf16)
    return {__uint_as_float(packed << 16), __uint_as_float(packed & ~0xffffu)};
  Pair pair;
  asm("{\n.reg .b16 x, y;\nmov.b32 {x, y}, %2;\ncvt.f32.f16 %0, x;\ncvt.f32.f16 %1, y;\n}"
      : "=f"(pair.x), "=f"(pair.y)
      : "r"(packed));
  return pair;
}

/// Two e4m3 elements, `low` at the lower address.
SLUICE_DEVICE u16 pack_e4m3(float low, float high) {
  u16 packed;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(high), "f"(low));
  return packed;
}

/// Writes two neighbouring elements of D; the address is aligned to both.
template <DType kType>
SLUICE_DEVICE void store_element_pair(void* base, i64 index, float x, float y) {
  if constexpr (kType == DType::fp32) {
    struct alignas(8) Two {
      float x, y;
    };
    *reinterpret_cast<Two*>(static_cast<float*>(base) + index) = {x, y};
  } else if constexpr (kType == DType::e4m3) {
    *reinterpret_cast<u16*>(static_cast<u8*>(base) + index) = pack_e4m3(x, y);
  } else {
    *reinterpret_cast<u32*>(static_cast<u16*>(base) + index) = pack_16bit<kType>(x, y);
  }
}

/// Writes four neighbouring elements of D; the address is aligned to all four.
template <DType kType>
SLUICE_DEVICE void store_element_quad(void* base, i64 index, const float (&v)[4]) {
  if constexpr (kType == DType::fp32)
    *reinterpret_cast<float4*>(static_cast<float*>(base) + index) = float4{v[0], v[1], v[2], v[3]};
  else if constexpr (kType == DType::e4m3)
    *reinterpret_cast<u32*>(static_cast<u8*>(base) + index) =
        static_cast<u32>(pack_e4m3(v[0], v[1])) | static_cast<u32>(pack_e4m3(v[2], v[3])) << 16;
  else
    *reinterpret_cast<uint2*>(static_cast<u16*>(base) + index) =
        uint2{pack_16bit<kType>(v[0], v[1]), pack_16bit<kType>(v[2], v[3])};
}

/// Writes one element of D: the slow path for a D that TMA cannot address.
template <DType kType>
SLUICE_DEVICE void store_element(void* base, i64 index, float value) {
  if constexpr (kType == DType::fp32)
    static_cast<float*>(base)[index] = value;
  else if constexpr (kType == DType::e4m3)
    static_cast<u8*>(base)[index] = static_cast<u8>(pack_e4m3(value, 0.0f));
  else
    static_cast<u16*>(base)[index] = static_cast<u16>(pack_16bit<kType>(value, 0.0f));
}

}  // namespace sluice
