// SPDX-License-Identifier: Apache-2.0
// Turns packed words into tensor core registers with masks and rotates (docs/packing.md). A register value is
// (code + kOffset) * 2^-exponent of its row, exactly. Integers become fp16 subnormals or the fraction of a
// bf16; e2m1 codes become fp16 or bf16 with another bias; e4m3 codes are converted. Offset, zero and exponent
// are removed from the sums later (kernels/narrow.cuh).
#pragma once

#include <sluice/spec/packed_codes.h>
#include <sluice/device/element.cuh>

namespace sluice {

// (word & mask) | bits, one instruction
SLUICE_DEVICE u32 and_or(u32 word, u32 mask, u32 bits) {
  u32 result;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(result) : "r"(word), "r"(mask), "r"(bits));
  return result;
}
// bits of `one` where the mask has ones, else of `other`, one instruction
SLUICE_DEVICE u32 select_bits(u32 one, u32 other, u32 mask) {
  u32 result;
  asm("lop3.b32 %0, %1, %2, %3, 0xE4;" : "=r"(result) : "r"(one), "r"(other), "r"(mask));
  return result;
}
SLUICE_DEVICE u32 rotate_word(u32 word, int bits) {
  return __funnelshift_r(word, word, bits);
}

/// The factor 2^exponent, which removes an exponent from the sums.
SLUICE_HD constexpr float exact_power(int exponent) {
  float value = 1.0f;
  for (int i = exponent; i < 0; ++i) value *= 0.5f;
  for (int i = 0; i < exponent; ++i) value *= 2.0f;
  return value;
}

/// kWords words of a lane make one 16 x 16 fragment; expand() takes the words of 64 k and the number of a
/// fragment. kPasses fragments add up to one operand; all are multiplied by the same tokens. The exponents
/// belong to rows g and g + 8 of a block.
template <WeightType kType, DType kX>
struct CodeFragments;

/// Tokens are multiplied by 2^kTokenPower, because codes are so small that products would underflow.
template <WeightType kType, DType kX>
inline constexpr int kTokenPower = 0;

template <>
struct CodeFragments<WeightType::uint4, DType::fp16> {
  static constexpr int kWords = 1, kPasses = 1, kOffset = 0, kUpperExponent = 21, kLowerExponent = 17;

  template <int kPass>
  SLUICE_DEVICE static void expand(const u32* words, int fragment, u32 (&a)[4]) {
    const u32 word = words[fragment], turned = rotate_word(word, 8);
    a[0] = word & 0x00780078u;  // fraction bits 6..3: code * 2^-21
    a[1] = word & 0x07800780u;  // bits 10..7 in place: code * 2^-17, one bit above the fraction included
    a[2] = turned & 0x00780078u;
    a[3] = turned & 0x07800780u;
  }
};

template <>
struct CodeFragments<WeightType::uint4, DType::bf16> {
  static constexpr int kWords = 1, kPasses = 1, kOffset = 16, kUpperExponent = 0, kLowerExponent = 0;

  template <int kPass>
  SLUICE_DEVICE static void expand(const u32* words, int fragment, u32 (&a)[4]) {
#pragma unroll
    for (int j = 0; j < 4; ++j) a[j] = and_or(rotate_word(words[fragment], 4 * j), 0x00780078u, 0x41804180u);
  }
};

template <>
struct CodeFragments<WeightType::int8, DType::fp16> {
  static constexpr int kWords = 2, kPasses = 1, kOffset = 0, kUpperExponent = 21, kLowerExponent = 21;

  template <int kPass>
  SLUICE_DEVICE static void expand(const u32* words, int fragment, u32 (&a)[4]) {
#pragma unroll
    for (int j = 0; j < 4; ++j) a[j] = rotate_word(words[2 * fragment + j / 2], 8 * (j % 2)) & 0x07F807F8u;
  }
};

// A bf16 has eight significant bits, one too few. So the operand is the sum of two: 16 + the low four bits,
// and 256 + the high four.
template <>
struct CodeFragments<WeightType::int8, DType::bf16> {
  static constexpr int kWords = 2, kPasses = 2, kOffset = 272, kUpperExponent = 0, kLowerExponent = 0;

  template <int kPass>
  SLUICE_DEVICE static void expand(const u32* words, int fragment, u32 (&a)[4]) {
#pragma unroll
    for (int j = 0; j < 4; ++j)
      a[j] = and_or(rotate_word(words[2 * fragment + j / 2], 8 * (j % 2) + 4 * kPass), 0x00780078u,
                    kPass == 0 ? 0x41804180u : 0x43804380u);
  }
};

/// The two fp16 pairs of a word's e4m3 codes. After a rotation codes are whole bytes: 0 and 2 of the first
/// register, 1 and 3 of the second. The conversion keeps every value, NaN included (PTX ISA cvt, e4m3x2).
SLUICE_DEVICE void unpack_e4m3(u32 word, u32& first, u32& second) {
  const u32 bytes = __byte_perm(rotate_word(word, 3), 0, 0x3120);
  asm("{\n.reg .b16 x, y;\nmov.b32 {x, y}, %2;\ncvt.rn.f16x2.e4m3x2 %0, x;\ncvt.rn.f16x2.e4m3x2 %1, y;\n}"
      : "=r"(first), "=r"(second)
      : "r"(bytes));
}

template <>
struct CodeFragments<WeightType::e4m3, DType::fp16> {
  static constexpr int kWords = 2, kPasses = 1, kOffset = 0, kUpperExponent = 0, kLowerExponent = 0;

  template <int kPass>
  SLUICE_DEVICE static void expand(const u32* words, int fragment, u32 (&a)[4]) {
    unpack_e4m3(words[2 * fragment], a[0], a[1]);
    unpack_e4m3(words[2 * fragment + 1], a[2], a[3]);
  }
};

// There is no conversion from e4m3 to bf16: fp16 is converted to fp32 first.
template <>
struct CodeFragments<WeightType::e4m3, DType::bf16> {
  static constexpr int kWords = 2, kPasses = 1, kOffset = 0, kUpperExponent = 0, kLowerExponent = 0;

  template <int kPass>
  SLUICE_DEVICE static void expand(const u32* words, int fragment, u32 (&a)[4]) {
    CodeFragments<WeightType::e4m3, DType::fp16>::expand<kPass>(words, fragment, a);
#pragma unroll
    for (u32& pair : a) {
      const Pair values = unpack_16bit<DType::fp16>(pair);
      pair = pack_16bit<DType::bf16>(values.x, values.y);
    }
  }
};

// e2m1 codes are bf16 of bias 127 instead of 1: 2^-126 of their value. Only 0.5 is a subnormal, which the
// tensor core keeps. Tokens from 2^48 on become infinite (docs/numerics.md).
template <>
inline constexpr int kTokenPower<WeightType::e2m1, DType::bf16> = 80;

template <>
struct CodeFragments<WeightType::e2m1, DType::bf16> {
  static constexpr int kWords = 1, kPasses = 1, kOffset = 0, kUpperExponent = 126 - 80,
                       kLowerExponent = 126 - 80;

  template <int kPass>
  SLUICE_DEVICE static void expand(const u32* words, int fragment, u32 (&a)[4]) {
    const int odd = fragment % 2;
    const u32 *pair = words + fragment - odd, third = select_bits(pair[0], pair[1] >> kE2m1Shift, kE2m1Even);
#pragma unroll
    for (int j = 0; j < 4; ++j) a[j] = rotate_word(j < 3 ? pair[odd] : third, e2m1_turn(odd, j)) & kE2m1Bits;
  }
};

// fp16 has exponent and fraction three bits higher, and bias 15: codes are 2^-14 of their value.
template <>
struct CodeFragments<WeightType::e2m1, DType::fp16> {
  static constexpr int kWords = 1, kPasses = 1, kOffset = 0, kUpperExponent = 14, kLowerExponent = 14;

  template <int kPass>
  SLUICE_DEVICE static void expand(const u32* words, int fragment, u32 (&a)[4]) {
    CodeFragments<WeightType::e2m1, DType::bf16>::expand<kPass>(words, fragment, a);
#pragma unroll
    for (u32& pair : a) pair += (pair & 0x01C001C0u) * 7;
  }
};

}  // namespace sluice
