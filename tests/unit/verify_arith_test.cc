// SPDX-License-Identifier: Apache-2.0
// Compares the arithmetic that checks GPU results with the reference's own and with values computed by hand.
// Two authors wrote verify_arith.h and reference/element.cc independently, so a common mistake is unlikely.
// To see it fail: halve kRounder (ties are then wrong), or make e4m3's largest code 0x7f.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include <sluice/kernels/verify_arith.h>
#include <sluice/reference/element.h>

namespace sluice {
namespace {

constexpr DType kTypes[] = {DType::bf16, DType::fp16, DType::fp32, DType::e4m3, DType::e5m2};

TEST(verify_arith, decodes_every_code_as_the_reference_does) {
  for (const DType type : kTypes) {
    const u64 count = u64{1} << bits_of(type), step = type == DType::fp32 ? 65521 : 1;
    for (u64 code = 0; code < count; code += step) {
      const double ours = verify::decode(type, static_cast<u32>(code));
      const double theirs = decode_code(type, static_cast<u32>(code));
      ASSERT_TRUE(ours == theirs || (std::isnan(ours) && std::isnan(theirs))) << name_of(type) << " " << code;
      ASSERT_EQ(std::isnan(ours) || std::signbit(ours) == std::signbit(theirs), true)
          << name_of(type) << code;
    }
  }
}

TEST(verify_arith, rounds_as_the_reference_does_around_every_code) {
  for (const DType type : kTypes) {
    const u64 count = u64{1} << bits_of(type), step = type == DType::fp32 ? 65521 : 1;
    for (u64 code = 0; code + 1 < count; code += step) {
      const double low = decode_code(type, static_cast<u32>(code)),
                   high = decode_code(type, static_cast<u32>(code) + 1);
      if (!std::isfinite(low) || !std::isfinite(high)) continue;
      const double middle = low + (high - low) / 2;
      for (const double x : {low, middle, std::nextafter(middle, high), std::nextafter(middle, low)})
        ASSERT_EQ(verify::encode(type, x), encode_code(type, x)) << name_of(type) << " " << code << " " << x;
    }
  }
}

TEST(verify_arith, rounds_random_doubles_and_the_extremes_as_the_reference_does) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kMost = std::numeric_limits<double>::max(),
                   kLeast = std::numeric_limits<double>::denorm_min();
  for (const DType type : kTypes) {
    for (const double x :
         {0.0, -0.0, kInfinity, -kInfinity, kMost, -kMost, kLeast, -kLeast, 448.0, 464.0, 465.0, -480.0,
          65504.0, 65519.9, 65520.0, 57344.0, 61440.0, 3.4028235e38, 3.4028236e38})
      ASSERT_EQ(verify::encode(type, x), encode_code(type, x)) << name_of(type) << " " << x;
    for (u64 i = 0; i < 300'000; ++i) {
      const u64 h = verify::hash(7, i);
      const int exponent = verify::pick(h >> 32, 320) - 170;
      const double x = std::ldexp(1.0 + static_cast<double>(h & 0xffffffff) * 0x1p-32, exponent);
      ASSERT_EQ(verify::encode(type, -x), encode_code(type, -x)) << name_of(type) << " " << x;
    }
  }
}

TEST(verify_arith, poison_is_nan_in_every_type_and_no_result_of_a_conversion) {
  for (const DType type : kTypes) {
    EXPECT_TRUE(std::isnan(verify::decode(type, verify::poison_of(type))));
    EXPECT_NE(verify::encode(type, NAN), verify::poison_of(type));
    EXPECT_TRUE(std::isnan(verify::decode(type, verify::encode(type, -NAN))));
  }
}

TEST(verify_arith, integers_keep_to_their_magnitude_and_density) {
  const FillSpec fill{.kind = Fill::integers, .magnitude = 8, .density = 64};
  int nonzero = 0;
  std::set<double> seen;
  for (u64 i = 0; i < 100'000; ++i) {
    const double x = verify::fill_value(fill, 3, i);
    ASSERT_EQ(x, std::round(x));
    ASSERT_LE(std::fabs(x), 8.0);
    seen.insert(x);
    nonzero += x != 0.0;
  }
  EXPECT_NEAR(nonzero, 25'000, 600);
  EXPECT_EQ(seen.size(), 17u) << "every value from -8 to 8 comes up";
}

TEST(verify_arith, real_fills_have_the_range_and_spread_they_name) {
  double sum = 0, squares = 0;
  for (u64 i = 0; i < 200'000; ++i) {
    const double uniform = verify::fill_value({.kind = Fill::uniform}, 5, i);
    const double positive = verify::fill_value({.kind = Fill::positive}, 5, i);
    ASSERT_TRUE(uniform >= -1.0 && uniform < 1.0);
    ASSERT_TRUE(positive >= 0.5 && positive < 1.0);
    const double normal = verify::fill_value({.kind = Fill::normal}, 5, i);
    sum += normal;
    squares += normal * normal;
  }
  EXPECT_NEAR(sum / 200'000, 0.0, 0.01);
  EXPECT_NEAR(squares / 200'000, 1.0, 0.02);
}

TEST(verify_arith, powers_are_exact_scales_of_both_signs) {
  std::set<double> seen;
  for (u64 i = 0; i < 1'000; ++i)
    seen.insert(verify::fill_value({.kind = Fill::powers, .magnitude = 1}, 1, i));
  EXPECT_EQ(seen, (std::set<double>{-2, -1, -0.5, 0.5, 1, 2}));
}

TEST(verify_arith, specials_hold_some_nan_and_infinities_and_mostly_numbers) {
  int nan = 0, infinite = 0;
  for (u64 i = 0; i < 100'000; ++i) {
    const double x = verify::fill_value({.kind = Fill::specials}, 9, i);
    nan += std::isnan(x);
    infinite += std::isinf(x);
  }
  EXPECT_GT(nan, 100);
  EXPECT_GT(infinite, 100);
  EXPECT_LT(nan + infinite, 2'000);
}

TEST(verify_arith, error_bounds_grow_with_k_and_stop_at_the_sum_itself) {
  const double s = 1000.0;
  Problem p{.k = 4096};
  EXPECT_NEAR(verify::sum_bound(p, s), 1.3 * 4096 * 0x1p-25 * s, 1e-9);
  p.a.type = p.b.type = DType::e4m3;
  p.accumulate = Accumulate::promoted;
  EXPECT_NEAR(verify::sum_bound(p, s), (136 * 0x1p-13 + 32 * 0x1p-24) * s, 1e-9);
  p.epilogue.scale_a = p.epilogue.scale_b = ScaleMode::block;
  EXPECT_NEAR(verify::sum_bound(p, s), (136 * 0x1p-13 + 34 * 0x1p-24) * s, 1e-9);
  p.epilogue = {};
  p.accumulate = Accumulate::fast;
  p.k = 32;
  EXPECT_NEAR(verify::sum_bound(p, s), 34 * 0x1p-13 * s, 1e-9);
  p.k = 1 << 20;
  EXPECT_EQ(verify::sum_bound(p, s), s);
}

}  // namespace
}  // namespace sluice
