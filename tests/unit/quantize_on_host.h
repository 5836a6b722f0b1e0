// SPDX-License-Identifier: Apache-2.0
// The quantising kernels' steps over host memory, for simulated threads. Include it after gtest and before no
// other kernel.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include <sluice/reference/element.h>
#include <sluice/reference/quantize.h>
#include <sluice/run/jit/compiler.h>
#include <sluice/spec/overlap.h>

#include "simulated_grid.h"

inline sluice::u32 atomicMax(sluice::u32* target, sluice::u32 value) {
  std::atomic_ref<sluice::u32> cell(*target);
  sluice::u32 seen = cell;
  while (seen < value && !cell.compare_exchange_weak(seen, value)) continue;
  return seen;
}
inline sluice::u32 atomicInc(sluice::u32* target, sluice::u32 bound) {
  std::atomic_ref<sluice::u32> cell(*target);
  sluice::u32 seen = cell;
  while (!cell.compare_exchange_weak(seen, seen >= bound ? 0 : seen + 1)) continue;
  return seen;
}
inline void __threadfence() {}
//
#include <sluice/kernels/quantize.cuh>

namespace sluice {

/// The only CTA of a simulated row. tests/gpu runs rows on several CTAs.
template <u32 kSlots>
struct HostTeam {
  struct Shared {
    u32 slots[2][kSlots];
  };
  u32 ctas = 1, rank = 0, index = blockIdx.x, teams = gridDim.x;
  explicit HostTeam(Shared& memory) : shared(memory) {}
  void begin() const {}
  void put(u32 slot, u32 value) {
    if (threadIdx.x % 32 == 0) shared.slots[turn % 2][slot] = value;
  }
  const u32* meet(u32) {
    __syncthreads();
    return shared.slots[turn++ % 2];
  }
  Shared& shared;
  u32 turn = 0;
};

struct HostArith {
  template <u32 kSlots>
  using Team = HostTeam<kSlots>;
  template <DType>
  struct Raw {
    const void* base = nullptr;
    i64 index = 0;
  };
  template <DType kType>
  static float load_element(const void* base, i64 index) {
    return static_cast<float>(sluice::load_element(kType, base, index));
  }
  template <DType kType>
  static Raw<kType> load_raw(const void* base, i64 index, bool inside) {
    EXPECT_EQ((reinterpret_cast<u64>(base) + static_cast<u64>(index) * bytes_of(kType)) % 16, 0u);
    return {inside ? base : nullptr, index};
  }
  template <DType kType>
  static void unpack(const Raw<kType>& raw, float* values) {
    for (int i = 0; i < 8; ++i)
      values[i] = raw.base == nullptr ? 0.0f : load_element<kType>(raw.base, raw.index + i);
  }
  static i32 load_index(const i32* address, bool inside) { return inside ? *address : 0; }
  static u16 load_bits(const u16* address) { return *address; }
  template <DType kType>
  static void words_of(const Raw<kType>& raw, u32 (&words)[4]) {
    if (raw.base != nullptr)
      return static_cast<void>(std::memcpy(words, static_cast<const u16*>(raw.base) + raw.index, 16));
    std::memset(words, 0, 16);
  }
  static float silu(float x) { return reference_silu(x); }
  static u32 pack(float low, float high) {
    return encode_code(DType::e4m3, low) | encode_code(DType::e4m3, high) << 8;
  }
  template <DType kType>
  static u32 pack_16bit(float low, float high) {
    return encode_code(kType, low) | static_cast<u32>(encode_code(kType, high)) << 16;
  }
  static void store(u8* target, const u32 (&words)[4]) {
    EXPECT_EQ(reinterpret_cast<u64>(target) % 16, 0u);
    std::memcpy(target, words, 16);
  }
  static void store_words(u8* target, const u32* words) {
    EXPECT_EQ(reinterpret_cast<u64>(target) % 8, 0u);
    std::memcpy(target, words, 8);
  }
  static u32 read(const u32* address) { return *address; }
  static u32 largest_of_warp(u32 bits) {
    for (int distance = 16; distance > 0; distance /= 2)
      bits = std::max(bits, static_cast<u32>(__shfl_xor_sync(~0u, bits, distance)));
    return bits;
  }
  static void warm(const WarmRange& range, u32, u32) { EXPECT_EQ(range.bytes, 0); }
};

/// Compiles a unit: no spills, no warnings, and at most so many registers: 128 are two CTAs per SM.
inline void expect_to_compile(const Compiler& compiler, const std::string& unit, int registers = 128) {
  const auto cubin = compiler.compile(unit);
  ASSERT_TRUE(cubin) << cubin.error().message;
  EXPECT_EQ(cubin->report.spill_bytes, 0) << unit << cubin->report.registers << " registers";
  EXPECT_EQ(cubin->report.stack_bytes, 0) << unit;
  EXPECT_EQ(cubin->report.log, "") << unit;
  EXPECT_LE(cubin->report.registers, registers) << unit;
}

}  // namespace sluice
