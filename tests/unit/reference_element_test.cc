// SPDX-License-Identifier: Apache-2.0
// Compares every code of every small type with the compiler's float conversions or with tables computed by
// hand, and rounding with a search for the nearest neighbour. To see it fail: round half up instead of to
// even, or let e4m3 overflow to its NaN.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include <sluice/reference/element.h>

namespace sluice {
namespace {

constexpr DType kSmallTypes[] = {DType::bf16, DType::fp16, DType::e4m3, DType::e5m2};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

u32 code_count(DType type) {
  return 1u << bits_of(type);
}
float float_of_bits(u32 bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

TEST(reference_element, bf16_is_the_upper_half_of_a_float) {
  for (u32 code = 0; code < code_count(DType::bf16); ++code) {
    const double expected = float_of_bits(code << 16), got = decode_code(DType::bf16, code);
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(got)) << code;
    else
      EXPECT_EQ(got, expected) << code;
  }
}

TEST(reference_element, fp16_is_the_compilers_half) {
  for (u32 code = 0; code < code_count(DType::fp16); ++code) {
    const u16 bits = static_cast<u16>(code);
    _Float16 half;
    std::memcpy(&half, &bits, 2);
    const double expected = static_cast<double>(half), got = decode_code(DType::fp16, code);
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(got)) << code;
    else
      EXPECT_EQ(got, expected) << code;
  }
}

TEST(reference_element, e5m2_is_the_upper_half_of_fp16) {
  for (u32 code = 0; code < code_count(DType::e5m2); ++code) {
    const double expected = decode_code(DType::fp16, code << 8), got = decode_code(DType::e5m2, code);
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(got)) << code;
    else
      EXPECT_EQ(got, expected) << code;
  }
}

TEST(reference_element, e4m3_follows_its_table) {
  // OCP 8-bit floating point specification, table 1: in E4M3, S.1111.111 is NaN, and there is no infinity.
  for (int exponent = 0; exponent < 16; ++exponent)
    for (int fraction = 0; fraction < 8; ++fraction) {
      const u32 code = exponent * 8 + fraction;
      const double got = decode_code(DType::e4m3, code), negative = decode_code(DType::e4m3, code | 0x80);
      if (code == 0x7f) {
        EXPECT_TRUE(std::isnan(got) && std::isnan(negative));
        continue;
      }
      double expected = exponent == 0 ? fraction / 8.0 / 64.0 : 1.0 + fraction / 8.0;
      for (int e = exponent; exponent != 0 && e < 7; ++e) expected /= 2;
      for (int e = exponent; exponent != 0 && e > 7; --e) expected *= 2;
      EXPECT_EQ(got, expected) << code;
      EXPECT_EQ(negative, -expected) << code;
    }
  EXPECT_EQ(decode_code(DType::e4m3, 0x7e), 448.0);
}

TEST(reference_element, encode_undoes_decode_for_every_code) {
  for (const DType type : kSmallTypes)
    for (u32 code = 0; code < code_count(type); ++code) {
      const double value = decode_code(type, code);
      if (std::isnan(value))
        EXPECT_TRUE(std::isnan(decode_code(type, encode_code(type, value)))) << name_of(type) << " " << code;
      else
        EXPECT_EQ(encode_code(type, value), code) << name_of(type);
    }
}

TEST(reference_element, encode_picks_the_nearest_neighbour_and_even_on_ties) {
  for (const DType type : kSmallTypes) {
    const u32 max_code = format_of(type).max_code;
    for (u32 code = 0; code < max_code; ++code) {
      const double low = decode_code(type, code), high = decode_code(type, code + 1);
      const double middle = low + (high - low) / 2;  // exact in double
      const u32 even = code % 2 == 0 ? code : code + 1;
      const u32 sign = 1u << (bits_of(type) - 1);
      ASSERT_EQ(encode_code(type, middle), even) << name_of(type) << " " << code;
      ASSERT_EQ(encode_code(type, -middle), even | sign) << name_of(type) << " " << code;
      ASSERT_EQ(encode_code(type, std::nextafter(middle, 0.0)), code) << name_of(type) << " " << code;
      ASSERT_EQ(encode_code(type, std::nextafter(middle, high)), code + 1) << name_of(type) << " " << code;
    }
  }
}

TEST(reference_element, overflow_saturates_e4m3_and_makes_infinity_of_the_rest) {
  for (const double huge : {464.0, 465.0, 480.0, 1e6, 1e300, kInfinity}) {
    EXPECT_EQ(encode_code(DType::e4m3, huge), 0x7eu) << huge;
    EXPECT_EQ(encode_code(DType::e4m3, -huge), 0xfeu) << huge;
  }
  EXPECT_EQ(encode_code(DType::e4m3, std::nan("")), 0x7fu);
  EXPECT_EQ(encode_code(DType::fp16, 65519.9), 0x7bffu);  // rounds down to 65504
  // A tie, rounded to the even neighbour, which is infinity.
  EXPECT_EQ(encode_code(DType::fp16, 65520.0), 0x7c00u);
  EXPECT_EQ(encode_code(DType::fp16, -1e300), 0xfc00u);
  EXPECT_EQ(encode_code(DType::e5m2, 61440.0), 0x7cu);
  EXPECT_EQ(encode_code(DType::e5m2, 61439.0), 0x7bu);
  EXPECT_EQ(encode_code(DType::bf16, 3.4e38), 0x7f80u);
  EXPECT_EQ(encode_code(DType::bf16, kInfinity), 0x7f80u);
}

TEST(reference_element, underflow_keeps_the_sign_of_zero) {
  for (const DType type : kSmallTypes) {
    const u32 sign = 1u << (bits_of(type) - 1);
    const double smallest = decode_code(type, 1);
    for (const double tiny : {smallest / 2, smallest / 3, std::numeric_limits<double>::denorm_min(), 0.0}) {
      EXPECT_EQ(encode_code(type, tiny), 0u) << name_of(type);
      EXPECT_EQ(encode_code(type, -tiny), sign) << name_of(type);
    }
    EXPECT_EQ(encode_code(type, smallest * 0.51), 1u) << name_of(type);
  }
}

TEST(reference_element, fp32_is_the_compilers_conversion) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200'000; ++i) {
    const u64 bits = random();
    double value;
    std::memcpy(&value, &bits, 8);
    // Half of the values are near the range of fp32, where rounding matters.
    if (i % 2 == 0) value = std::ldexp(1.0 + static_cast<double>(bits >> 12) * 0x1p-52, i % 300 - 155);
    if (std::isnan(value)) continue;
    const float expected = static_cast<float>(value);
    u32 code;
    std::memcpy(&code, &expected, 4);
    ASSERT_EQ(encode_code(DType::fp32, value), code) << value;
    ASSERT_EQ(decode_code(DType::fp32, code), static_cast<double>(expected));
  }
}

TEST(reference_element, arrays_are_addressed_by_element) {
  for (const DType type : {DType::bf16, DType::fp16, DType::fp32, DType::e4m3, DType::e5m2}) {
    unsigned char bytes[5 * 4];
    std::memset(bytes, 0xab, sizeof bytes);
    for (int i = 0; i < 3; ++i) store_element(type, bytes, i, i - 1.5);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(load_element(type, bytes, i), i - 1.5) << name_of(type);
    // Nothing was written after the third element.
    EXPECT_EQ(bytes[3 * bytes_of(type)], 0xab) << name_of(type);
  }
}

}  // namespace
}  // namespace sluice
