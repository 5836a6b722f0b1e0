// SPDX-License-Identifier: Apache-2.0
// Arithmetic on two 16-bit numbers in a register, rounded to nearest even, with subnormals. PTX ISA: fma, mul
// (f16x2, bf16x2), max (s16x2), prmt.
#pragma once

#include <sluice/spec/dtype.h>

namespace sluice::ptx {

template <DType kType>
SLUICE_DEVICE u32 multiply_add_pair(u32 a, u32 b, u32 c) {
  u32 result;
  if constexpr (kType == DType::bf16)
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  else
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}

template <DType kType>
SLUICE_DEVICE u32 multiply_pair(u32 a, u32 b) {
  u32 result;
  if constexpr (kType == DType::bf16)
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  else
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

// The larger of each pair of signed 16-bit integers.
SLUICE_DEVICE u32 larger_integer_pair(u32 a, u32 b) {
  u32 result;
  asm("max.s16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

// The low half of a pair in both halves.
SLUICE_DEVICE u32 repeat_low(u32 pair) {
  return __byte_perm(pair, pair, 0x1010);
}
SLUICE_DEVICE u32 repeat_high(u32 pair) {
  return __byte_perm(pair, pair, 0x3232);
}

}  // namespace sluice::ptx
