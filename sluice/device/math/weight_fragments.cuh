// SPDX-License-Identifier: Apache-2.0
// Turns packed words into A registers that hold weights instead of codes. First (code - zero) * 2^-kExponent,
// exactly, by one fused multiply-add on the registers of CodeFragments; then times the group's scale, rounded
// once.
// fp16 has a small exponent range, so the scale is multiplied by 2^kLift, which is divided out of the sums.
// Scales from 2^-20 to 2^7 keep their weights' bits (docs/numerics.md has the bounds). bf16 weights of
// OneStepFragments are multiplied by 2^-20. Used by kernels/wide.cuh and strip.cuh.
#pragma once

#include <sluice/device/element.cuh>
#include <sluice/device/math/code_fragments.cuh>
#include <sluice/device/ptx/half_pair.cuh>

namespace sluice {

/// kWords words of a lane make a fragment; the arguments are as in CodeFragments. kImplied: the addend for
/// the format's implied zero. difference(): computes code - zero; its argument `zero` holds addends for rows
/// g and g + 8, made by addend().
template <WeightType kType, DType kX, ScaleZero kZero>
struct WeightFragments;

template <ScaleZero kZero>
struct WeightFragments<WeightType::uint4, DType::fp16, kZero> {
  static constexpr int kWords = 1, kExponent = 6, kLift = 2;
  static constexpr u32 kImplied = 0xB000B000u;  // -8 * 2^-6

  static SLUICE_DEVICE float addend(float zero) { return zero * -0x1p-6f; }
  static SLUICE_DEVICE void difference(const u32* words, int fragment, const u32 (&zero)[2], u32 (&a)[4]) {
    constexpr u32 kFrom21 = 0x78007800u, kFrom17 = 0x68006800u;  // 2^15, 2^11
    CodeFragments<WeightType::uint4, DType::fp16>::expand<0>(words, fragment, a);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      a[j] = ptx::multiply_add_pair<DType::fp16>(a[j], j % 2 == 0 ? kFrom21 : kFrom17, zero[j % 2]);
  }
};

template <ScaleZero kZero>
struct WeightFragments<WeightType::uint4, DType::bf16, kZero> {
  static constexpr int kWords = 1, kExponent = 0, kLift = kZero == ScaleZero::none ? -20 : 0;
  static constexpr u32 kImplied = 0xC1C0C1C0u;  // -(16 + 8)

  static SLUICE_DEVICE float addend(float zero) { return -16.0f - zero; }
  static SLUICE_DEVICE void difference(const u32* words, int fragment, const u32 (&zero)[2], u32 (&a)[4]) {
    constexpr u32 kOne = 0x3F803F80u;
    CodeFragments<WeightType::uint4, DType::bf16>::expand<0>(words, fragment, a);
#pragma unroll
    for (int j = 0; j < 4; ++j) a[j] = ptx::multiply_add_pair<DType::bf16>(a[j], kOne, zero[j % 2]);
  }
};

template <ScaleZero kZero>
struct WeightFragments<WeightType::int8, DType::fp16, kZero> {
  static constexpr int kWords = 2, kExponent = 6, kLift = 0;
  static constexpr u32 kImplied = 0xC000C000u;  // -128 * 2^-6

  static SLUICE_DEVICE float addend(float zero) { return zero * -0x1p-6f; }
  static SLUICE_DEVICE void difference(const u32* words, int fragment, const u32 (&zero)[2], u32 (&a)[4]) {
    constexpr u32 kFrom21 = 0x78007800u;  // 2^15
    CodeFragments<WeightType::int8, DType::fp16>::expand<0>(words, fragment, a);
#pragma unroll
    for (int j = 0; j < 4; ++j) a[j] = ptx::multiply_add_pair<DType::fp16>(a[j], kFrom21, zero[j % 2]);
  }
};

// Expands the high and the low four bits separately, as 256 + 16 h and 16 + l. Every step is an integer of at
// most 8 bits times a power of two, so it is exact. A stored zero has 8 bits too, so it is subtracted in a
// separate step.
template <ScaleZero kZero>
struct WeightFragments<WeightType::int8, DType::bf16, kZero> {
  static constexpr int kWords = 2, kExponent = 0, kLift = 0;
  static constexpr u32 kImplied = 0xC3C8C3C8u;  // -(272 + 128)

  static SLUICE_DEVICE float addend(float zero) { return -zero; }
  static SLUICE_DEVICE void difference(const u32* words, int fragment, const u32 (&zero)[2], u32 (&a)[4]) {
    using Codes = CodeFragments<WeightType::int8, DType::bf16>;
    constexpr u32 kOne = 0x3F803F80u, kOffset = 0xC388C388u;  // pairs of bf16: 1 and -272
    u32 ones[4];
    Codes::template expand<0>(words, fragment, ones);
    Codes::template expand<1>(words, fragment, a);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      a[j] = ptx::multiply_add_pair<DType::bf16>(a[j], kOne,
                                                 kZero == ScaleZero::per_group ? kOffset : zero[j % 2]);
      a[j] = ptx::multiply_add_pair<DType::bf16>(ones[j], kOne, a[j]);
      if constexpr (kZero == ScaleZero::per_group)
        a[j] = ptx::multiply_add_pair<DType::bf16>(a[j], kOne, zero[j % 2]);
    }
  }
};

// fp16 weights are 2^-8 of the code, so that small scales keep their bits: they are multiplied by 2^8.
template <DType kX>
struct SignedFragments {
  static constexpr int kWords = 2, kLift = 0, kExponent = kX == DType::fp16 ? 8 : 0;
  static constexpr u32 kImplied = 0;

  static SLUICE_DEVICE float addend(float) { return 0.0f; }
  static SLUICE_DEVICE void difference(const u32* words, int fragment, const u32 (&)[2], u32 (&a)[4]) {
    constexpr u32 kUnit = 0x1C001C00u;  // 2^-8
    CodeFragments<WeightType::e4m3, kX>::template expand<0>(words, fragment, a);
#pragma unroll
    for (u32& pair : a)
      if constexpr (kX == DType::fp16) pair = ptx::multiply_pair<kX>(pair, kUnit);
  }
};
template <ScaleZero kZero>
struct WeightFragments<WeightType::e4m3, DType::fp16, kZero> : SignedFragments<DType::fp16> {};
template <ScaleZero kZero>
struct WeightFragments<WeightType::e4m3, DType::bf16, kZero> : SignedFragments<DType::bf16> {};

template <ScaleZero kZero>
struct WeightFragments<WeightType::e2m1, DType::fp16, kZero> {
  static constexpr int kWords = 1, kExponent = 0, kLift = 0;
  static constexpr u32 kImplied = 0;

  static SLUICE_DEVICE float addend(float) { return 0.0f; }
  static SLUICE_DEVICE void difference(const u32* words, int fragment, const u32 (&)[2], u32 (&a)[4]) {
    constexpr u32 kFrom14 = 0x74007400u;  // 2^14
    CodeFragments<WeightType::e2m1, DType::fp16>::expand<0>(words, fragment, a);
#pragma unroll
    for (u32& pair : a) pair = ptx::multiply_pair<DType::fp16>(pair, kFrom14);
  }
};
// OneStepFragments makes these weights.
template <ScaleZero kZero>
struct WeightFragments<WeightType::e2m1, DType::bf16, kZero> {
  static constexpr int kWords = 1, kExponent = 0, kLift = -20;
  static constexpr u32 kImplied = 0;
};

/// Weights for bf16 tokens in one operation per register.
template <WeightType kType>
struct OneStepFragments;

/// uint4 weights with an implied zero: code * scale - 8 * scale. It rounds once, so for scales from 2^-106 to
/// 2^17 the bits equal those of two operations. Codes are subnormals, 2^-130 of their value: bf16 has the
/// exponent range for that and for weights times 2^-20. fp16 does not: scales of 2^-4 and more would
/// overflow.
template <>
struct OneStepFragments<WeightType::uint4> {
  static constexpr u32 kFactor = 0x76807680u, kOffset = 0xB700B700u;  // multiplied by a scale: 2^110, and -8
                                                                      // * 2^-20

  /// `factor`, `offset`: for rows g and g + 8, the scale times kFactor and times kOffset.
  static SLUICE_DEVICE void expand(const u32* words, int fragment, const u32 (&factor)[2],
                                   const u32 (&offset)[2], u32 (&a)[4]) {
#pragma unroll
    for (int j = 0; j < 4; ++j)
      a[j] = ptx::multiply_add_pair<DType::bf16>(rotate_word(words[fragment], 4 * j) & 0x00780078u,
                                                 factor[j % 2], offset[j % 2]);
  }
};

/// e2m1 weights: code * scale, exactly for scales from 2^-105 to 2^21. Codes are 2^-126 of their value.
template <>
struct OneStepFragments<WeightType::e2m1> {
  static constexpr u32 kFactor = 0x74807480u, kOffset = 0;  // multiplied by a scale: 2^106; not used

  static SLUICE_DEVICE void expand(const u32* words, int fragment, const u32 (&factor)[2], const u32 (&)[2],
                                   u32 (&a)[4]) {
    CodeFragments<WeightType::e2m1, DType::bf16>::expand<0>(words, fragment, a);
#pragma unroll
    for (int j = 0; j < 4; ++j) a[j] = ptx::multiply_pair<DType::bf16>(a[j], factor[j % 2]);
  }
};

}  // namespace sluice
