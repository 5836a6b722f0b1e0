// SPDX-License-Identifier: Apache-2.0
// The arithmetic of verification: conversions between element formats and double with one rounding, the
// counter-based hash, the values of each fill, and the error bound of a sum. NVRTC compiles it for the
// kernels and g++ for tests/unit/verify_arith_test.cc, so it calls no GPU function. It deliberately shares
// nothing with device/, so that a mistake in the kernels' own conversions is not repeated here.
#pragma once

#include <sluice/kernels/verify_params.h>

namespace sluice::verify {

inline constexpr u64 kSignBit = u64{1} << 63;

template <class To, class From>
SLUICE_HD constexpr To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}
/// 2^exponent; the result must be a normal double.
SLUICE_HD constexpr double power_of_two(int exponent) {
  return bits_as<double>(static_cast<u64>(exponent + 1023) << 52);
}
SLUICE_HD constexpr double magnitude_of(double x) {
  return bits_as<double>(bits_as<u64>(x) & ~kSignBit);
}
SLUICE_HD constexpr bool is_nan(double x) {
  return (bits_as<u64>(x) & ~kSignBit) > (u64{0x7ff} << 52);
}
SLUICE_HD constexpr bool is_finite(double x) {
  return (bits_as<u64>(x) >> 52 & 0x7ff) != 0x7ff;
}

/// A format of sign | exponent | fraction. e4m3 has no infinity: with all exponent bits set it still holds
/// numbers, and one NaN.
struct CodeLayout {
  int exponent_bits, fraction_bits;
  bool infinity;
};
SLUICE_HD constexpr CodeLayout code_layout(DType type) {
  switch (type) {
    case DType::bf16: return {8, 7, true};
    case DType::fp16: return {5, 10, true};
    case DType::fp32: return {8, 23, true};
    case DType::e4m3: return {4, 3, false};
    case DType::e5m2: return {5, 2, true};
    case DType::e8m0: return {8, 0, false};
  }
  return {};
}
SLUICE_HD constexpr int bias_of(const CodeLayout& f) {
  return (1 << (f.exponent_bits - 1)) - 1;
}
SLUICE_HD constexpr u32 poison_of(DType type) {
  return 0xffffffffu >> (32 - bits_of(type));
}

SLUICE_HD constexpr double decode(DType type, u32 bits) {
  if (type == DType::e8m0 && bits < 255) return power_of_two(static_cast<int>(bits) - 127);
  const CodeLayout f = code_layout(type);
  const u32 fraction_mask = (1u << f.fraction_bits) - 1, exponent_mask = (1u << f.exponent_bits) - 1;
  const u32 fraction = bits & fraction_mask, exponent = bits >> f.fraction_bits & exponent_mask;
  const u64 sign = bits >> (f.fraction_bits + f.exponent_bits) & 1 ? kSignBit : 0;
  const u64 fraction64 = static_cast<u64>(fraction) << (52 - f.fraction_bits);
  if (exponent == exponent_mask && (f.infinity || fraction == fraction_mask))
    return bits_as<double>(sign | u64{0x7ff} << 52 | (f.infinity ? fraction64 : u64{1} << 51));
  if (exponent == 0) {
    const double magnitude = static_cast<double>(fraction) * power_of_two(1 - bias_of(f) - f.fraction_bits);
    return bits_as<double>(sign | bits_as<u64>(magnitude));
  }
  return bits_as<double>(sign | static_cast<u64>(static_cast<int>(exponent) - bias_of(f) + 1023) << 52 |
                         fraction64);
}

/// Rounds once, to nearest even. Above the largest number the result is infinity, or for e4m3 the largest
/// number (saturation). The result for e8m0 is the nearest power of two, of positive numbers only.
SLUICE_HD constexpr u32 encode(DType type, double x) {
  if (type == DType::e8m0) {
    if (!(x > 0.0)) return 255;
    const u64 bits = bits_as<u64>(x * (4.0 / 3.0));  // from 1.5 on the next power of two is as near
    const int exponent = static_cast<int>(bits >> 52) - 1023 + 127;
    return exponent < 0 ? 0 : exponent > 254 ? 254 : static_cast<u32>(exponent);
  }
  const CodeLayout f = code_layout(type);
  const int bias = bias_of(f), code_bits = f.fraction_bits + f.exponent_bits;
  // infinity, if the type has one
  const u32 past_numbers = ((1u << f.exponent_bits) - 1) << f.fraction_bits;
  const u32 largest = f.infinity ? past_numbers - 1 : (1u << code_bits) - 2;
  const u32 sign = bits_as<u64>(x) & kSignBit ? 1u << code_bits : 0;
  if (is_nan(x)) return (1u << code_bits) - 1;
  const u32 overflow = f.infinity ? past_numbers : largest;
  if (!is_finite(x)) return sign | overflow;

  const double magnitude = magnitude_of(x);
  const int exponent = static_cast<int>(bits_as<u64>(magnitude) >> 52) - 1023;
  const bool subnormal = exponent < 1 - bias;
  // exponent of one unit in the last place
  const int quantum = (subnormal ? 1 - bias : exponent) - f.fraction_bits;
  if (!subnormal && exponent > bias + 1) return sign | overflow;
  constexpr double kRounder = 4503599627370496.0;  // 2^52: adding it leaves no fraction bits
  const double units = (magnitude * power_of_two(-quantum) + kRounder) - kRounder;
  // A carry out of the fraction increments the exponent correctly.
  const u32 code = subnormal ? static_cast<u32>(units)
                             : (static_cast<u32>(exponent + bias) << f.fraction_bits) +
                                   (static_cast<u32>(units) - (1u << f.fraction_bits));
  return sign | (code > largest ? overflow : code);
}

/// The finaliser of splitmix64 over a Weyl sequence: 64 pseudo-random bits for every (seed, index).
SLUICE_HD constexpr u64 hash(u64 seed, u64 index) {
  u64 x = seed + (index + 1) * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// A number in 0 .. count-1 from 32 random bits.
SLUICE_HD constexpr int pick(u64 bits32, int count) {
  return static_cast<int>((bits32 & 0xffffffffull) * static_cast<u64>(count) >> 32);
}

/// The value of element `index`, before rounding to the buffer's type. Bits of the hash: 0..7 density, 8
/// sign, 9..15 rare events, 16..31 halvings, 32..63 magnitude.
SLUICE_HD constexpr double fill_value(const FillSpec& fill, u64 seed, u64 index) {
  const u64 h = hash(seed, index);
  const double sign = h >> 8 & 1 ? -1.0 : 1.0;
  const u64 high = h >> 32;
  const double unit = static_cast<double>(h >> 11) * power_of_two(-53);
  switch (fill.kind) {
    case Fill::poison: return bits_as<double>(~u64{0});
    case Fill::specials:
      if ((h >> 9 & 127) == 0) {
        const double infinity = bits_as<double>(u64{0x7ff} << 52);
        return high % 3 == 0 ? bits_as<double>(u64{0x7ff8} << 48) : sign * infinity;
      }
      [[fallthrough]];
    case Fill::integers:
      if (static_cast<int>(h & 255) >= fill.density) return 0.0;
      if ((h >> 16 & ((u64{1} << fill.halvings) - 1)) != 0) return 0.0;
      return sign * (1 + pick(high, fill.magnitude));
    case Fill::powers: return sign * power_of_two(pick(high, 2 * fill.magnitude + 1) - fill.magnitude);
    case Fill::uniform: return 2.0 * unit - 1.0;
    case Fill::normal: {
      double sum = 0.0;
      for (int i = 0; i < 4; ++i) sum += static_cast<double>(h >> (16 * i) & 0xffff) * power_of_two(-16);
      return (sum - 2.0) * 1.7320508075688772;
    }
    case Fill::positive: return 0.5 + 0.5 * unit;
    case Fill::ones: return 1.0;
  }
  return 0.0;
}

/// Bound for |computed - true| of a sum over k, with S = sum |a b|, from the model of the tensor core in
/// docs/numerics.md. 16-bit: each step of 16 k rounds 17 aligned terms to 2^-25 and the sum to 2^-23. fp8:
/// each step of 32 k truncates 34 aligned terms to 2^-13. Promoted: 4 such steps, then fp32. Fast: all steps;
/// the bound grows with k up to S, which all-positive data nearly reach (docs/numerics.md).
/// Block scales are part of S and add two roundings: the product of the scales, and its product with the
/// partial sum.
SLUICE_HD constexpr double sum_bound(const Problem& p, double s) {
  const double step16 = static_cast<double>(ceil_div(p.k, i64{16}) * 16);
  if (!is_fp8(p.a.type)) return 1.3 * step16 * power_of_two(-25) * s;
  const int scale_roundings = is_block_scaled(p.epilogue) ? 2 : 0;
  const double adds = static_cast<double>(scale_blocks(p.k) + scale_roundings) * power_of_two(-24);
  if (is_promoted(p)) return (136.0 * power_of_two(-13) + adds) * s;
  const double cut = 34.0 * static_cast<double>(ceil_div(p.k, i64{32})) * power_of_two(-13);
  return (cut < 1.0 ? cut : 1.0) * s;
}

/// The fp32 roundings of alpha * scale_a * scale_b * sum + beta * C + bias. Two are for the product of
/// scales, one for its product with the sum, one per addition, and one for beta * C if it is not fused.
inline constexpr double kEpilogueRoundings = 6.0;

/// Bound for the rounding of additions to D in memory: one addition, or one per k-tile if slices are added in
/// any order, each with an epilogue. Each addition rounds the value in memory, and flushes subnormals before
/// and after.
SLUICE_HD constexpr double additions_bound(const Problem& p, double terms) {
  const i64 k_tiles = ceil_div(p.k, i64{is_fp8(p.a.type) ? 128 : 64});
  const double additions = p.deterministic ? 1.0 : static_cast<double>(k_tiles) + kEpilogueRoundings;
  return additions * (power_of_two(-24) * terms + 3 * power_of_two(-126));
}

/// Sums up to this limit are exact in the accumulator: fp32's 24 bits, or for fp8 13 fraction bits and the
/// leading one.
SLUICE_HD constexpr double exact_sum_limit(DType input) {
  return is_fp8(input) ? 16384.0 : 16777215.0;
}

}  // namespace sluice::verify
