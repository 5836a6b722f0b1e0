// SPDX-License-Identifier: Apache-2.0
// Decodes and encodes by the definition of a floating-point number, with the same code for every type. It is
// slow, and independent of conversion instructions, compiler flags and rounding modes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <sluice/reference/element.h>

namespace sluice {
namespace {

int bias_of(const FloatFormat& format) {
  return (1 << (format.exponent_bits - 1)) - 1;
}

/// Rounds to the nearest integer, ties to even, in any rounding mode of the thread. Exact below 2^52.
double round_half_even(double value) {
  const double below = std::floor(value);
  const double rest = value - below;
  const bool odd = std::fmod(below, 2.0) != 0.0;
  return rest > 0.5 || (rest == 0.5 && odd) ? below + 1.0 : below;
}

}  // namespace

double decode_code(DType type, u32 code) {
  if (type == DType::e8m0)
    return code == 255 ? std::numeric_limits<double>::quiet_NaN()
                       : std::ldexp(1.0, static_cast<int>(code) - 127);
  const FloatFormat format = format_of(type);
  const u32 fraction_mask = (1u << format.fraction_bits) - 1;
  const u32 magnitude = code & ((1u << (bits_of(type) - 1)) - 1);
  const double sign = (code >> (bits_of(type) - 1) & 1) != 0 ? -1.0 : 1.0;
  if (magnitude > format.max_code) {
    const bool infinite = format.has_infinity && magnitude == format.max_code + 1;
    return infinite ? sign * std::numeric_limits<double>::infinity()
                    : std::numeric_limits<double>::quiet_NaN();
  }
  const int exponent = static_cast<int>(magnitude >> format.fraction_bits);
  const u32 fraction = magnitude & fraction_mask;
  const u32 hidden = exponent == 0 ? 0 : fraction_mask + 1;
  const int scale = (exponent == 0 ? 1 : exponent) - bias_of(format) - format.fraction_bits;
  return sign * std::ldexp(static_cast<double>(hidden + fraction), scale);
}

u32 encode_code(DType type, double value) {
  const FloatFormat format = format_of(type);
  if (std::isnan(value) || (type == DType::e8m0 && value <= 0)) return format.nan_code;
  if (type == DType::e8m0) return static_cast<u32>(std::clamp(std::ilogb(value / 0.75), -127, 127) + 127);
  const u32 sign = std::signbit(value) ? 1u << (bits_of(type) - 1) : 0;
  const double magnitude = std::fabs(value);
  const u32 overflow = format.has_infinity ? format.max_code + 1 : format.max_code;
  if (std::isinf(magnitude)) return sign | overflow;
  if (magnitude == 0) return sign;

  // The exponent that determines the distance of adjacent numbers; it is constant for subnormal numbers.
  const int lowest = 1 - bias_of(format);
  const int exponent = std::ilogb(magnitude) < lowest ? lowest : std::ilogb(magnitude);
  if (exponent > bias_of(format) + 1) return sign | overflow;  // avoids overflow in the arithmetic below
  const double steps = round_half_even(std::ldexp(magnitude, format.fraction_bits - exponent));
  // Codes of one sign are consecutive, so rounding up to a power of two increments the exponent by the carry.
  const u32 code = (static_cast<u32>(exponent - lowest) << format.fraction_bits) + static_cast<u32>(steps);
  return sign | (code > format.max_code ? overflow : code);
}

double load_element(DType type, const void* data, i64 index) {
  u32 code = 0;
  std::memcpy(&code, static_cast<const char*>(data) + index * bytes_of(type), bytes_of(type));
  return decode_code(type, code);
}

void store_element(DType type, void* data, i64 index, double value) {
  const u32 code = encode_code(type, value);
  std::memcpy(static_cast<char*>(data) + index * bytes_of(type), &code, bytes_of(type));
}

}  // namespace sluice
