// SPDX-License-Identifier: Apache-2.0
// Simulated loads, stores and conversions of elements (sluice/device/element.cuh): the reference's, with
// checks of rights and alignment.
#pragma once

#include <sluice/reference/element.h>
#include <sluice/spec/dtype.h>

#include "cuda_names.h"

namespace sluice {

template <DType kType>
float load_element(const void* base, i64 index) {
  static_assert(is_addend(kType));
  if constexpr (kType == DType::fp32)
    return simulated::cta.load_global<float>(static_cast<const float*>(base) + index);
  else
    return static_cast<float>(
        decode_code(kType, simulated::cta.load_global<u16>(static_cast<const u16*>(base) + index)));
}

template <DType kType>
u32 pack_16bit(float low, float high) {
  static_assert(is_16bit(kType));
  return encode_code(kType, low) | encode_code(kType, high) << 16;
}

struct Pair {
  float x, y;
};

template <DType kType>
Pair unpack_16bit(u32 packed) {
  static_assert(is_16bit(kType));
  return {static_cast<float>(decode_code(kType, packed & 0xffff)),
          static_cast<float>(decode_code(kType, packed >> 16))};
}

inline u16 pack_e4m3(float low, float high) {
  return static_cast<u16>(encode_code(DType::e4m3, low) | encode_code(DType::e4m3, high) << 8);
}

template <DType kType>
void store_element_pair(void* base, i64 index, float x, float y) {
  struct alignas(8) Two {
    float x, y;
  };
  if constexpr (kType == DType::fp32)
    simulated::cta.store_global(static_cast<float*>(base) + index, Two{x, y});
  else if constexpr (kType == DType::e4m3)
    simulated::cta.store_global(static_cast<u8*>(base) + index, pack_e4m3(x, y));
  else
    simulated::cta.store_global(static_cast<u16*>(base) + index, pack_16bit<kType>(x, y));
}

template <DType kType>
void store_element_quad(void* base, i64 index, const float (&v)[4]) {
  struct alignas(16) Four {
    float v[4];
  };
  struct alignas(8) Halves {
    u32 low, high;
  };
  if constexpr (kType == DType::fp32)
    simulated::cta.store_global(static_cast<float*>(base) + index, Four{{v[0], v[1], v[2], v[3]}});
  else if constexpr (kType == DType::e4m3)
    simulated::cta.store_global(
        static_cast<u8*>(base) + index,
        static_cast<u32>(pack_e4m3(v[0], v[1])) | static_cast<u32>(pack_e4m3(v[2], v[3])) << 16);
  else
    simulated::cta.store_global(static_cast<u16*>(base) + index,
                                Halves{pack_16bit<kType>(v[0], v[1]), pack_16bit<kType>(v[2], v[3])});
}

template <DType kType>
void store_element(void* base, i64 index, float value) {
  if constexpr (kType == DType::fp32)
    simulated::cta.store_global(static_cast<float*>(base) + index, value);
  else if constexpr (kType == DType::e4m3)
    simulated::cta.store_global(static_cast<u8*>(base) + index, static_cast<u8>(pack_e4m3(value, 0.0f)));
  else
    simulated::cta.store_global(static_cast<u16*>(base) + index,
                                static_cast<u16>(pack_16bit<kType>(value, 0.0f)));
}

}  // namespace sluice
