// SPDX-License-Identifier: Apache-2.0
// Compares the reference product with independent arithmetic: integer sums over logical matrices, stored by a
// second rule of addresses, and closed forms of the epilogue. To see it fail: swap batch and column in B's
// address, or read C with beta = 0, where C is null.
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <sluice/reference/element.h>
#include <sluice/reference/gemm.h>

namespace sluice {
namespace {

/// A logical matrix of batch x rows x columns small whole numbers, stored with `strides`. All other bytes are
/// 0xff, which is NaN in every type, so that reading them shows.
struct Scattered {
  std::vector<int> values;
  std::vector<unsigned char> bytes;
  i64 rows, columns;

  Scattered(DType type, i64 batch, i64 row_count, i64 column_count, i64 row_step, i64 column_step,
            i64 batch_step, std::mt19937& random)
      : rows(row_count), columns(column_count) {
    const i64 last = (batch - 1) * batch_step + (rows - 1) * row_step + (columns - 1) * column_step;
    bytes.assign((last + 1) * bytes_of(type), 0xff);
    for (i64 z = 0; z < batch; ++z)
      for (i64 i = 0; i < rows; ++i)
        for (i64 j = 0; j < columns; ++j) {
          values.push_back(static_cast<int>(random() % 7) - 3);
          store_element(type, bytes.data(), z * batch_step + i * row_step + j * column_step, values.back());
        }
  }
  int at(i64 z, i64 i, i64 j) const { return values[(z * rows + i) * columns + j]; }
};

struct Case {
  DType a, b, d;
  Major a_major = Major::k, b_major = Major::k;
  bool padded = false;
};

void check_against_integers(const Case& test) {
  std::mt19937 random(11);
  const i64 m = 9, n = 6, k = 13, batch = 3, pad = test.padded ? 5 : 0;
  const i64 lda = (test.a_major == Major::k ? k : m) + pad, ldb = (test.b_major == Major::k ? k : n) + pad;
  const i64 ldc = n + pad, ldd = n + 2 * pad;
  const i64 a_batch = lda * (test.a_major == Major::k ? m : k) + pad;
  const i64 b_batch = ldb * (test.b_major == Major::k ? n : k) + pad;
  Problem p{.m = m, .n = n, .k = k, .batch = batch};
  p.a = {.type = test.a, .major = test.a_major};
  p.b = {.type = test.b, .major = test.b_major};
  p.d.type = test.d;
  if (test.padded) {
    p.a.ld = lda, p.a.batch_stride = a_batch;
    p.b.ld = ldb, p.b.batch_stride = b_batch;
    p.c.ld = ldc, p.c.batch_stride = ldc * m + pad;
    p.d.ld = ldd, p.d.batch_stride = ldd * m + pad;
  }
  p.epilogue = {.scale_a = ScaleMode::vector,
                .scale_b = ScaleMode::tensor,
                .bias = Bias::column,
                .bias_type = DType::fp16,
                .activation = Activation::relu,
                .residual = true,
                .c_type = DType::bf16};

  const bool a_k = test.a_major == Major::k, b_k = test.b_major == Major::k;
  const Scattered a(test.a, batch, m, k, a_k ? lda : 1, a_k ? 1 : lda, a_batch, random);
  const Scattered b(test.b, batch, k, n, b_k ? 1 : ldb, b_k ? ldb : 1, b_batch, random);
  const Scattered c(DType::bf16, batch, m, n, ldc, 1, ldc * m + pad, random);
  const Scattered bias(DType::fp16, 1, 1, n, n, 1, n, random);
  std::vector<float> scale_a(m);
  for (i64 i = 0; i < m; ++i) scale_a[i] = i % 3 == 0 ? -2.0f : 0.5f;
  const float scale_b = 2.0f, alpha = 0.5f, beta = -4.0f;

  const i64 d_batch = ldd * m + pad, d_elements = (batch - 1) * d_batch + (m - 1) * ldd + n;
  std::vector<unsigned char> d(d_elements * bytes_of(test.d), 0xee);
  reference_gemm(p,
                 {.a = a.bytes.data(),
                  .b = b.bytes.data(),
                  .c = c.bytes.data(),
                  .d = d.data(),
                  .scale_a = scale_a.data(),
                  .scale_b = &scale_b,
                  .bias = bias.bytes.data()},
                 alpha, beta);

  std::vector<unsigned char> expected(d.size(), 0xee);
  for (i64 z = 0; z < batch; ++z)
    for (i64 i = 0; i < m; ++i)
      for (i64 j = 0; j < n; ++j) {
        int sum = 0;
        for (i64 l = 0; l < k; ++l) sum += a.at(z, i, l) * b.at(z, l, j);
        // alpha * scale_b is 1/2, so sums are counted in halves to stay whole.
        const int halves = sum * (i % 3 == 0 ? -4 : 1) - 8 * c.at(z, i, j) + 2 * bias.at(0, 0, j);
        store_element(test.d, expected.data(), z * d_batch + i * ldd + j, halves > 0 ? halves / 2.0 : 0.0);
      }
  EXPECT_EQ(d, expected) << name_of(test.a) << " " << name_of(test.d) << " " << name_of(test.a_major) << " "
                         << name_of(test.b_major) << " " << test.padded;
}

/// A and B are ones, so an element of D is the sum over blocks of their length times their scales.
TEST(reference_gemm, block_scales_belong_to_their_row_their_128_columns_and_their_128_of_k) {
  const i64 batch = 2, m = 3, n = 130, k = 300, k_blocks = 3, n_blocks = 2;
  Problem p{.m = m, .n = n, .k = k, .batch = batch};
  p.a.type = p.b.type = DType::e4m3;
  p.d.type = DType::fp32;
  p.epilogue.scale_a = p.epilogue.scale_b = ScaleMode::block;
  ASSERT_EQ(scale_a_count(p), batch * m * k_blocks);
  ASSERT_EQ(scale_b_count(p), batch * n_blocks * k_blocks);
  std::vector<float> scale_a, scale_b;
  for (i64 i = 0; i < scale_a_count(p); ++i) scale_a.push_back(static_cast<float>(1 + i));
  for (i64 i = 0; i < scale_b_count(p); ++i) scale_b.push_back(static_cast<float>(1 << i % 5));
  const std::vector<unsigned char> a(batch * m * k, 0x38), b(batch * n * k, 0x38);  // 1.0 in e4m3
  std::vector<float> d(batch * m * n, -1.0f);
  reference_gemm(
      p, {.a = a.data(), .b = b.data(), .d = d.data(), .scale_a = scale_a.data(), .scale_b = scale_b.data()},
      1.0f, 0.0f);
  for (i64 z = 0; z < batch; ++z)
    for (i64 i = 0; i < m; ++i)
      for (i64 j = 0; j < n; ++j) {
        float expected = 0;
        for (i64 block = 0; block < k_blocks; ++block)
          expected += static_cast<float>(block < 2 ? 128 : 44) * scale_a[(z * m + i) * k_blocks + block] *
                      scale_b[(z * n_blocks + j / 128) * k_blocks + block];
        ASSERT_EQ(d[(z * m + i) * n + j], expected) << z << ", " << i << ", " << j;
      }
}

TEST(reference_gemm, matches_integer_arithmetic_in_every_type_layout_and_stride) {
  const DType inputs[] = {DType::bf16, DType::fp16, DType::e4m3, DType::e5m2};
  const DType outputs[] = {DType::bf16, DType::fp16, DType::fp32, DType::e4m3};
  for (const DType input : inputs)
    for (const DType output : outputs)
      for (const Major a_major : {Major::k, Major::mn})
        for (const Major b_major : {Major::k, Major::mn})
          for (const bool padded : {false, true})
            check_against_integers({input, input, output, a_major, b_major, padded});
  check_against_integers({DType::e4m3, DType::e5m2, DType::bf16});
}

/// Returns D of a product of one element: a * 1, with this epilogue and alpha.
double single(Epilogue epilogue, float a, float alpha = 1.0f) {
  Problem p{.m = 1, .n = 1, .k = 1};
  p.a.type = p.b.type = DType::bf16;
  p.d.type = DType::fp32;
  p.epilogue = epilogue;
  u16 a_bits, b_bits;
  float d = -77.0f;
  store_element(DType::bf16, &a_bits, 0, a);
  store_element(DType::bf16, &b_bits, 0, 1.0);
  reference_gemm(p, {.a = &a_bits, .b = &b_bits, .d = &d}, alpha, 0.0f);
  return d;
}

TEST(reference_gemm, activations_have_their_closed_forms) {
  // x * Phi(x) and x * sigmoid(x) to ten decimals, from an independent source.
  EXPECT_NEAR(single({.activation = Activation::gelu}, 1.0f), 0.8413447461, 1e-7);
  EXPECT_NEAR(single({.activation = Activation::gelu}, -2.0f), -0.0455002639, 1e-8);
  EXPECT_NEAR(single({.activation = Activation::silu}, 1.0f), 0.7310585786, 1e-7);
  EXPECT_NEAR(single({.activation = Activation::silu}, -3.0f), -0.1422776195, 1e-8);
  EXPECT_EQ(single({.activation = Activation::relu}, -3.0f), 0.0);
  EXPECT_EQ(single({.activation = Activation::relu}, 3.0f), 3.0);
}

TEST(reference_gemm, nan_goes_through_every_activation_and_infinity_through_relu) {
  const float nan = std::nanf(""), infinity = INFINITY;
  for (const Activation activation :
       {Activation::none, Activation::relu, Activation::gelu, Activation::silu}) {
    EXPECT_TRUE(std::isnan(single({.activation = activation}, nan))) << name_of(activation);
    EXPECT_EQ(single({.activation = activation}, infinity), infinity) << name_of(activation);
  }
  EXPECT_EQ(single({.activation = Activation::relu}, -infinity), 0.0);
}

TEST(reference_gemm, unread_operands_may_be_nan_or_null) {
  EXPECT_EQ(single({}, std::nanf(""), /*alpha=*/0.0f), 0.0);  // A is not read
  // With beta = 0, C is null here, and reading it would crash.
  EXPECT_EQ(single({.residual = true, .c_type = DType::fp32}, 2.0f), 2.0);
}

TEST(reference_gemm, a_sum_over_nothing_is_zero_and_an_empty_product_writes_nothing) {
  float d[4] = {9, 9, 9, 9};
  Problem p{.m = 2, .n = 2, .k = 0};
  p.d.type = DType::fp32;
  reference_gemm(p, {.d = d}, 1.0f, 0.0f);
  for (const float value : d) EXPECT_EQ(value, 0.0f);
  for (i64 Problem::*size : {&Problem::m, &Problem::n, &Problem::batch}) {
    Problem empty{.m = 2, .n = 2, .k = 2};
    empty.*size = 0;
    reference_gemm(empty, {}, 1.0f, 0.0f);  // all pointers are null
  }
}

TEST(reference_gemm, adds_to_d_or_leaves_its_bits_where_there_is_nothing_to_add) {
  const float a[] = {1, 2}, b[] = {3, 4}, scale = 0.5f;
  u16 a16[2], b16[2];
  for (int i = 0; i < 2; ++i) {
    store_element(DType::bf16, a16, i, a[i]);
    store_element(DType::bf16, b16, i, b[i]);
  }
  Problem p{.m = 1, .n = 1, .k = 2, .d = {.type = DType::fp32}};
  p.epilogue = {.scale_a = ScaleMode::tensor, .update = Update::add};
  float d = 100;
  reference_gemm(p, {.a = a16, .b = b16, .d = &d, .scale_a = &scale}, 2.0f, 0.0f);
  EXPECT_EQ(d, 111.0f);
  d = -0.0f;
  reference_gemm(p, {.d = &d}, 0.0f, 0.0f);
  p.k = 0;
  reference_gemm(p, {.d = &d}, 1.0f, 0.0f);
  EXPECT_TRUE(std::signbit(d));
}

TEST(reference_gemm, rounds_once_from_the_double_sum) {
  // The sum is slightly above 2049, which is a tie between the fp16 values 2048 and 2050. It must round up,
  // not to even.
  Problem p{.m = 1, .n = 1, .k = 2};
  p.a.type = p.b.type = DType::bf16;
  p.d.type = DType::fp16;
  u16 a[2], b[2], d;
  store_element(DType::bf16, a, 0, 2048.0 + 0.0);
  store_element(DType::bf16, a, 1, 1.0078125);
  store_element(DType::bf16, b, 0, 1.0);
  store_element(DType::bf16, b, 1, 1.0);
  reference_gemm(p, {.a = a, .b = b, .d = &d}, 1.0f, 0.0f);
  EXPECT_EQ(load_element(DType::fp16, &d, 0), 2050.0);
}

}  // namespace
}  // namespace sluice
