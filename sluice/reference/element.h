// SPDX-License-Identifier: Apache-2.0
// The element types on the CPU: exact decoding, and encoding with one rounding to nearest even. A "code" is
// an element's bits. Invariant: encode_code(t, decode_code(t, c)) == c for every code that is not NaN, and
// NaN stays NaN. Called by reference/gemm.cc and by code that makes test data. A new type needs one row in
// format_of (docs/adding.md).
#pragma once

#include <sluice/spec/dtype.h>

namespace sluice {

/// The bits of a floating-point type: sign, exponent, fraction.
struct FloatFormat {
  int exponent_bits;
  int fraction_bits;
  bool has_infinity;  // false: the all-ones exponent has finite numbers, and only the last code is NaN
  u32 max_code;       // code of the largest finite value
  u32 nan_code;       // the NaN that the GPU's conversions produce
};

/// e4m3 has no infinity and saturates at 448, as cvt.satfinite does. e5m2 overflows to infinity like the
/// 16-bit types: it is only an input type, and test data must be able to contain its infinities.
constexpr FloatFormat format_of(DType type) {
  switch (type) {
    case DType::bf16: return {8, 7, true, 0x7f7f, 0x7fff};
    case DType::fp16: return {5, 10, true, 0x7bff, 0x7fff};
    case DType::fp32: return {8, 23, true, 0x7f7fffff, 0x7fffffff};
    case DType::e4m3: return {4, 3, false, 0x7e, 0x7f};
    case DType::e5m2: return {5, 2, true, 0x7b, 0x7f};
    case DType::e8m0: return {8, 0, false, 0xfe, 0xff};
  }
  return {};
}

/// Returns the value of a code; a double represents every value of these types exactly.
double decode_code(DType type, u32 code);
/// Returns the code nearest to `value`, ties to even. Keeps the sign of zeros; overflow is as in format_of.
u32 encode_code(DType type, double value);

/// Reads element `index` of an array in memory (little-endian, as on the GPU).
double load_element(DType type, const void* data, i64 index);
void store_element(DType type, void* data, i64 index, double value);

}  // namespace sluice
