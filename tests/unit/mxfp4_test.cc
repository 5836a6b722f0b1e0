// SPDX-License-Identifier: Apache-2.0
// MXFP4 in numbers: the arithmetic of device/math on all 16 codes, in every field of a word, with all 256
// scale bytes, repeated in double and compared with the definition. To see it fail: return 9 for register 2
// in e2m1_turn(), or shift by 8 in bf16_of_e8m0().
#include <sluice/pack_weights.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include <sluice/check/packed_data.h>
#include <sluice/kernels/verify_arith.h>
#include <sluice/reference/element.h>

#include "packed_formats.h"
#include "tests/packed_problems.h"

namespace sluice {
namespace {

constexpr double kValues[16] = {0.0,  0.5,  1.0,  1.5,  2.0,  3.0,  4.0,  6.0,
                                -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0};

/// The value of a scale by its definition; NaN for 255.
double scale_of(int byte) {
  return byte == 255 ? std::nan("") : std::ldexp(1.0, byte - 127);
}
/// The half-word that CodeFragments<e2m1, bf16> makes of a field. Bits of other fields must not reach it.
u32 half_word(u64 cell, int field) {
  const int odd = field / 8, reg = field % 8 / 2;
  const u32 pair[2] = {static_cast<u32>(cell), static_cast<u32>(cell >> 32)};
  const u32 third = (pair[0] & kE2m1Even) | (pair[1] >> kE2m1Shift & ~kE2m1Even);
  const u32 two = rotate_right(reg < 3 ? pair[odd] : third, e2m1_turn(odd, reg)) & kE2m1Bits;
  return two >> 16 * (field % 2) & 0xffff;
}
/// Rounds to a 16-bit type, as a multiplication in it does.
double rounded(DType type, double value) {
  return verify::decode(type, verify::encode(type, value));
}

/// Calls visit(code, half-word) for each code in each field, with two kinds of neighbours.
template <class Visit>
void for_codes(const Visit& visit) {
  for (int field = 0; field < 16; ++field)
    for (u32 code = 0; code < 16; ++code)
      for (const u32 others : {0u, 15u}) {
        u64 cell = 0;
        for (int other = 0; other < 16; ++other)
          cell |= place_code(kMxfp4, other == field ? code : others, other);
        visit(code, half_word(cell, field));
      }
}

TEST(mxfp4, a_code_is_its_value_in_both_token_types) {
  for_codes([](u32 code, u32 half) {
    EXPECT_EQ(verify::decode(DType::bf16, half), std::ldexp(kValues[code], -126)) << code;
    EXPECT_EQ(verify::decode(DType::fp16, half + (half & 0x01C0) * 7), std::ldexp(kValues[code], -14))
        << code;
    EXPECT_EQ(packed::code_value(WeightType::e2m1, code), kValues[code]);
  });
}

TEST(mxfp4, a_weight_is_exact_within_the_limits_of_numerics_md) {
  for (int byte = 1; byte < 256; ++byte) {
    const double bf16_scale = verify::decode(DType::bf16, static_cast<u32>(byte) << 7);
    EXPECT_TRUE(byte == 255 ? std::isinf(bf16_scale) : bf16_scale == scale_of(byte)) << byte;
    for_codes([&](u32 code, u32 half) {
      const double bits = verify::decode(DType::bf16, half), exact = kValues[code] * scale_of(byte);
      const double factor = rounded(DType::bf16, bf16_scale * 0x1p106);  // OneStepFragments::kFactor
      const double weight = rounded(DType::bf16, bits * factor) * 0x1p20;
      const bool in_limits = byte >= 127 - 105 && byte <= 127 + 21;
      ASSERT_TRUE(!in_limits || weight == exact) << byte << " " << code;
      ASSERT_TRUE(byte <= 127 + 21 || !std::isfinite(weight)) << byte << " " << code;

      const double half_scale = rounded(DType::fp16, bf16_scale);
      const double in_half = rounded(DType::fp16, kValues[code] * half_scale);
      ASSERT_TRUE(byte < 127 - 23 || byte > 127 + 13 || in_half == exact) << byte << " " << code;
    });
  }
  EXPECT_NE(rounded(DType::fp16, 0.5 * 0x1p-24), 0x1p-25) << "the limit is one";
  EXPECT_TRUE(std::isinf(rounded(DType::fp16, 6.0 * 0x1p14)));
}

TEST(mxfp4, the_reference_decodes_every_code_with_every_scale) {
  const i64 n = 256, k = 32;
  std::vector<u8> codes, scales;
  for (i64 row = 0; row < n; ++row) {
    scales.push_back(static_cast<u8>(row));
    for (i64 i = 0; i < k; ++i) codes.push_back(static_cast<u8>((i + row) % 16));
  }
  const WeightArrays arrays{n, k, codes.data(), scales.data()};
  const auto refused = pack_weights(kMxfp4, arrays);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(refused.error().message.find("scales[255][0] = 255, the NaN of e8m0"), std::string::npos);

  scales[255] = 254;
  const auto blob = pack_weights(kMxfp4, arrays);
  ASSERT_TRUE(blob) << blob.error().message;
  const auto values = dequantise_weights({kMxfp4, n, k, blob->data()});
  ASSERT_TRUE(values);
  for (i64 row = 0; row < n; ++row)
    for (i64 i = 0; i < k; ++i) {
      const auto at = static_cast<std::size_t>(row * k + i);
      ASSERT_EQ((*values)[at], kValues[codes[at]] * scale_of(static_cast<int>(std::min<i64>(row, 254))));
    }
}

TEST(mxfp4, scales_are_the_same_in_both_references) {
  for (u32 byte = 0; byte < 255; ++byte) {
    const double value = scale_of(static_cast<int>(byte));
    EXPECT_EQ(decode_code(DType::e8m0, byte), value);
    EXPECT_EQ(verify::decode(DType::e8m0, byte), value);
    EXPECT_EQ(encode_code(DType::e8m0, value), byte);
    EXPECT_EQ(verify::encode(DType::e8m0, value), byte);
    for (const double near : {0.76, 1.4, 1.49}) {
      if (near < 1 && byte == 0) continue;
      EXPECT_EQ(encode_code(DType::e8m0, near * value), byte) << near;
      EXPECT_EQ(verify::encode(DType::e8m0, near * value), byte) << near;
    }
  }
  for (const double value : {0.0, -1.0, std::nan("")}) {
    EXPECT_EQ(encode_code(DType::e8m0, value), 255u);
    EXPECT_EQ(verify::encode(DType::e8m0, value), 255u);
  }
  EXPECT_TRUE(std::isnan(decode_code(DType::e8m0, 255)) && std::isnan(verify::decode(DType::e8m0, 255)));
  EXPECT_EQ(encode_code(DType::e8m0, 1e300), 254u);
  EXPECT_EQ(verify::encode(DType::e8m0, 1e-300), 0u);
}

TEST(mxfp4, exact_data_have_halves_and_positive_scales) {
  const auto data = packed::random_data(packed_problem(3, 64, 320, DType::bf16, DType::fp32, kMxfp4),
                                        packed::DataKind::exact, 5);
  ASSERT_TRUE(data) << data.error().message;
  for (const u8 scale : data->scales) EXPECT_TRUE(scale >= 126 && scale <= 128) << int{scale};
  for (const PackedSum& sum : packed::reference_sums(*data))
    EXPECT_EQ(sum.value * 4, std::round(sum.value * 4)) << "quarters are the unit of exact_limit()";
  EXPECT_LE(packed::largest_sum(*data), packed::exact_limit(data->problem) / 2);
}

TEST(mxfp4, other_uses_of_its_types_are_refused) {
  const auto refused = [](Problem p, const std::string& mention) {
    const Result<Plan> plan = gemm::plan(p, DeviceInfo{});
    ASSERT_FALSE(plan) << mention;
    EXPECT_NE(plan.error().message.find(mention), std::string::npos) << plan.error().message;
  };
  Problem p = packed_problem(8, 64, 256, DType::e4m3, DType::bf16, kMxfp4);
  refused(p, "the weights are e2m1 and A is e4m3");
  p = packed_problem(8, 64, 256, DType::bf16, DType::e8m0, kMxfp4);
  refused(p, "D is e8m0");
  p = packed_problem(8, 64, 256, DType::e8m0, DType::bf16, kMxfp4);
  refused(p, "A is e8m0");
  p = packed_problem(8, 64, 256, DType::bf16, DType::bf16, kMxfp4);
  p.epilogue.bias = Bias::column;
  p.epilogue.bias_type = DType::e8m0;
  refused(p, "bias is e8m0");
  p = {.m = 64, .n = 64, .k = 64};
  p.a.type = p.b.type = DType::e8m0;
  refused(p, "A is e8m0 and B is e8m0");
  p = {.m = 64, .n = 64, .k = 64};
  p.d.type = DType::e8m0;
  refused(p, "D is e8m0");
  p.d.type = DType::bf16;
  p.epilogue.residual = true;
  p.epilogue.c_type = DType::e8m0;
  refused(p, "C is e8m0");
}

}  // namespace
}  // namespace sluice
