// SPDX-License-Identifier: Apache-2.0
// The check of packed products accepts only the exact value rounded once, if the data are exact, and the data
// are indeed exact. To see it fail: let allowed() have slack for exact data too, or let scan() begin a byte
// late.
#include <sluice/check/packed_data.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include <sluice/check/packed_check.h>
#include <sluice/run/jit/compiler.h>

#include "bench/host/packed_host.h"
#include "packed_formats.h"
#include "tests/packed_problems.h"

namespace sluice {
namespace {

using packed::DataKind;

std::vector<u8> reference_d(const packed::HostData& data, int shift) {
  const Result<std::vector<u8>> d = bench::reference_d(data, shift);
  EXPECT_TRUE(d.ok());
  return *d;
}

std::vector<PackedProblem> problems() {
  std::vector<PackedProblem> all;
  for (const WeightFormat& format : test::all_formats()) {
    const bool byte = format.order == FragmentOrder::byte;
    const int i = static_cast<int>(all.size());
    all.push_back({.m = 3 + i % 3,
                   .n = 70,
                   .k = 130 + 8 * (i % 5),
                   .x = byte         ? DType::e4m3
                        : i % 2 == 0 ? DType::bf16
                                     : DType::fp16,
                   .scale_x = byte ? static_cast<ScaleMode>(i / 2 % 3) : ScaleMode::none,
                   .d = i % 3 == 0   ? DType::fp32
                        : i % 3 == 1 ? DType::fp16
                                     : DType::bf16,
                   .weights = format,
                   .bias = i % 4 == 0 ? Bias::column : Bias::none,
                   .activation = i % 5 == 0 ? Activation::relu : Activation::none,
                   .ld_x = 176,
                   .ld_d = 70 + i % 2});
  }
  return all;
}

TEST(packed_data, the_packed_reference_is_right_in_every_format) {
  ASSERT_GE(problems().size(), 48u);
  for (const DataKind kind : {DataKind::exact, DataKind::real})
    for (const PackedProblem& p : problems()) {
      const Result<packed::HostData> data = packed::random_data(p, kind, 7);
      ASSERT_TRUE(data.ok()) << data.error().message;
      const Comparison found = packed::judge(*data, packed::reference_sums(*data), reference_d(*data, 1), 1);
      EXPECT_TRUE(found.passed()) << to_string(p) << describe(found);
      EXPECT_EQ(found.checked, p.m * p.n);
    }
}

TEST(packed_data, of_gated_products_is_right_and_halves_that_change_places_are_found) {
  for (const Activation activation : {Activation::none, Activation::relu, Activation::silu})
    for (const DType d : {DType::bf16, DType::fp32}) {
      const PackedProblem p{.m = 3,
                            .n = 256,
                            .k = 136,
                            .d = d,
                            .weights = {.group = 64},
                            .bias = Bias::column,
                            .activation = activation,
                            .gated = true};
      const auto kind = activation == Activation::silu ? DataKind::real : DataKind::exact;
      const Result<packed::HostData> data = packed::random_data(p, kind, 3);
      ASSERT_TRUE(data.ok()) << data.error().message;
      EXPECT_EQ(data->problem.d.ld, 128);
      const std::vector<PackedSum> sums = packed::reference_sums(*data);
      const Comparison found = packed::judge(*data, sums, reference_d(*data, 1), 1);
      EXPECT_TRUE(found.passed()) << describe(found);
      EXPECT_EQ(found.checked, 3 * 128);
      EXPECT_EQ(found.inexact_inputs, 0);
      std::vector<u8> d_bytes = reference_d(*data, 0);
      d_bytes[static_cast<size_t>(packed::d_begin(data->problem, 0) + bytes_of(d) - 1)] ^=
          64;  // the exponent's bits
      EXPECT_EQ(packed::judge(*data, sums, d_bytes, 0).wrong, 1);
      packed::HostData swapped = *data;
      std::swap_ranges(swapped.codes.begin(), swapped.codes.begin() + 128 * p.k,
                       swapped.codes.begin() + 128 * p.k);
      if (activation != Activation::none) {
        EXPECT_FALSE(packed::judge(*data, sums, reference_d(swapped, 0), 0).passed());
      }
    }
}

/// Returns the first token's root mean square as a faulty kernel would compute it: four adjacent elements,
/// those of a lane, are added twice and four others never.
double root_with_a_piece_twice(const packed::HostData& data) {
  const Problem& p = data.problem;
  const auto square = [&](i64 k) {
    u16 bits = 0;
    std::memcpy(&bits, data.x.data() + 2 * k, 2);
    return std::pow(verify::decode(DType::bf16, bits), 2);
  };
  double all = 0, low = 1e9, high = 0;
  for (i64 k = 0; k < p.k; ++k) all += square(k);
  for (i64 k = 0; k + 4 <= p.k; k += 4) {
    const double piece = square(k) + square(k + 1) + square(k + 2) + square(k + 3);
    low = std::min(low, piece), high = std::max(high, piece);
  }
  EXPECT_LT(low, high) << "pieces are all alike";
  return 1.0 / std::sqrt((all - low + high) / static_cast<double>(p.k));
}

TEST(packed_data, of_normed_tokens_and_residuals_is_right_and_what_is_left_out_is_found) {
  for (const DataKind kind : {DataKind::exact, DataKind::real})
    for (const i64 m : {1, 3, 8})
      for (const bool residual : {false, true}) {
        const PackedProblem p{.m = m,
                              .n = 70,
                              .k = 300,
                              .x = DType::bf16,
                              .d = m == 3 ? DType::fp32 : DType::bf16,
                              .weights = {.group = 64},
                              .bias = residual ? Bias::none : Bias::column,
                              .norm_a = true,
                              .residual = residual,
                              .ld_x = 304,
                              .ld_c = residual ? 73 : 0};
        const Result<packed::HostData> data = packed::random_data(p, kind, 11);
        ASSERT_TRUE(data.ok()) << data.error().message;
        const std::vector<PackedSum> sums = packed::reference_sums(*data);
        const Comparison found = packed::judge(*data, sums, reference_d(*data, 1), 1);
        EXPECT_TRUE(found.passed()) << describe(found);
        EXPECT_EQ(found.inexact_inputs, 0);
        const auto passes = [&](auto&& spoil) {
          packed::HostData other = *data;
          spoil(other);
          return packed::judge(*data, sums, reference_d(other, 1), 1).passed();
        };
        EXPECT_FALSE(passes([](packed::HostData& d) {
          for (size_t i = 1; i < d.gamma.size(); i += 4) d.gamma[i] ^= 0x80;
        })) << "signs of half of gamma";
        if (kind == DataKind::exact) {
          EXPECT_FALSE(passes([](packed::HostData& d) { d.roots.back() *= 2; }));
          EXPECT_FALSE(passes([](packed::HostData& d) { d.roots[0] = root_with_a_piece_twice(d); }));
        }
        if (residual) {
          EXPECT_FALSE(
              passes([&](packed::HostData& d) { d.c[static_cast<size_t>(bytes_of(p.d) - 1)] ^= 0x40; }));
        }
      }
}

// If the scale were wrong, all magnitudes would be equal: saturated at 448, or rounded to zero.
TEST(packed_data, of_an_e4m3_d_have_a_scale_with_which_it_keeps_its_bits) {
  for (const DataKind kind : {DataKind::exact, DataKind::real})
    for (const bool gated : {false, true})
      for (const i64 k : {16, 144, 2048})
        for (const u64 seed : {1, 2, 3, 4}) {
          const PackedProblem p{.m = 2,
                                .n = 256,
                                .k = k,
                                .x = DType::e4m3,
                                .scale_x = seed % 2 == 0 ? ScaleMode::tensor : ScaleMode::none,
                                .d = DType::e4m3,
                                .weights = {.group = 64, .order = FragmentOrder::byte},
                                .bias = k == 144 ? Bias::column : Bias::none,
                                .gated = gated,
                                .scale_d = ScaleMode::tensor};
          const Result<packed::HostData> data = packed::random_data(p, kind, seed);
          ASSERT_TRUE(data.ok()) << data.error().message;
          const std::vector<u8> d = reference_d(*data, 0);
          const Comparison found = packed::judge(*data, packed::reference_sums(*data), d, 0);
          EXPECT_TRUE(found.passed()) << to_string(p) << describe(found);
          i64 kept = 0;
          for (i64 i = 0; i < found.checked; ++i) {
            const u8 bits = d[static_cast<size_t>(packed::d_begin(data->problem, 0) + i)];
            const double value = std::fabs(verify::decode(DType::e4m3, bits));
            kept += value >= 0x1p-6 && value < 448 ? 1 : 0;
          }
          EXPECT_GE(static_cast<double>(kept), 0.85 * static_cast<double>(found.checked)) << to_string(p);
        }
}

/// A k that fills the rings of 8 CTAs of 16 warps. Pools of kernels draw k up to 12,288 (sanitize_pool.cc).
constexpr i64 kLongestK = 98'344;

PackedProblem long_problem(u64 seed) {
  const auto pick = [&](u64 field, int count) { return verify::pick(verify::hash(seed, field), count); };
  const std::vector<WeightFormat> formats = test::all_formats();
  PackedProblem p{.m = 1 + pick(0, 3), .n = 9 + pick(1, 8)};
  p.weights = formats[seed % formats.size()];
  const bool byte = p.weights.order == FragmentOrder::byte;
  const double exponent = 4 + static_cast<double>(pick(2, 1 << 20)) / (1 << 20) * std::log2(kLongestK / 16.0);
  p.k = static_cast<i64>(std::exp2(exponent));
  p.x = byte ? DType::e4m3 : pick(3, 2) == 0 ? DType::bf16 : DType::fp16;
  p.ld_x = ceil_div(p.k, i64{16}) * 16;
  p.d = pick(4, 2) == 0 ? DType::fp32 : DType::bf16;
  if (byte) p.scale_x = static_cast<ScaleMode>(pick(5, 3));
  p.bias = pick(6, 2) == 0 ? Bias::column : Bias::none;
  p.norm_a = p.x == DType::bf16 && pick(7, 2) == 0;
  p.residual = !byte && pick(8, 2) == 0;
  p.gated = !p.residual && pick(9, 4) == 0;
  if (p.gated) p.n = 128;
  return p;
}

// To see it fail: let exact_row() give each token its full number, as it once did. The first problem here
// could then not be judged on an H200.
TEST(packed_data, of_whole_numbers_are_exact_however_long_k_is) {
  std::vector<PackedProblem> all = {{.m = 41,
                                     .n = 136,
                                     .k = 7208,
                                     .x = DType::bf16,
                                     .weights = {.type = WeightType::int8, .zero = ScaleZero::per_group}}};
  for (u64 seed = 0; seed < 120; ++seed) all.push_back(long_problem(seed));
  int sparse = 0;
  for (const PackedProblem& p : all) {
    const Result<packed::HostData> data = packed::random_data(p, DataKind::exact, static_cast<u64>(p.k));
    ASSERT_TRUE(data.ok()) << to_string(p) << data.error().message;
    sparse += p.k > packed::most_exact_k(p) ? 1 : 0;
    EXPECT_LE(packed::largest_sum(*data), packed::exact_limit(p) / 2) << to_string(p);
    EXPECT_GT(packed::largest_sum(*data), 0) << to_string(p);
    const std::vector<PackedSum> sums = packed::reference_sums(*data);
    const Comparison found = packed::judge(*data, sums, reference_d(*data, 0), 0);
    EXPECT_EQ(found.verdict(), Verdict::right) << to_string(p) << describe(found);
    if (!p.norm_a) continue;
    for (const double root : data->roots)
      EXPECT_EQ(std::exp2(std::round(std::log2(root))), root) << to_string(p);
  }
  EXPECT_GE(sparse, 10);
}

TEST(packed_data, of_long_rows_are_spread_over_all_of_k) {
  const PackedProblem p{.m = 3, .n = 1, .k = 12'288, .x = DType::bf16, .weights = {.type = WeightType::int8}};
  ASSERT_GT(p.k, packed::most_exact_k(p));
  const Result<packed::HostData> data = packed::random_data(p, DataKind::exact, 1);
  ASSERT_TRUE(data.ok()) << data.error().message;
  for (i64 row = 0; row < p.m; ++row)
    for (i64 tile = 0; tile < p.k; tile += 128) {
      int tokens = 0;
      for (i64 k = tile; k < tile + 128; ++k)
        tokens += packed::number_at(p.x, data->x.data(), row * p.k + k) != 0;
      EXPECT_GE(tokens, 4) << "row " << row << ", k from " << tile;
    }
}

TEST(packed_data, that_are_too_large_are_neither_right_nor_wrong) {
  const PackedProblem p{.m = 1, .n = 70, .k = 512, .d = DType::fp32};
  Result<packed::HostData> data = packed::random_data(p, DataKind::exact, 1);
  ASSERT_TRUE(data.ok()) << data.error().message;
  // Tokens of 2048: exact on their own, but not in a sum beyond fp32's whole numbers.
  for (i64 k = 0; k < p.k; ++k) {
    constexpr u16 kLarge = 0x6800;
    std::memcpy(data->x.data() + 2 * k, &kLarge, 2);
  }
  EXPECT_GT(packed::largest_sum(*data), packed::exact_limit(p));
  const std::vector<PackedSum> sums = packed::reference_sums(*data);
  std::vector<u8> d = reference_d(*data, 0);
  const Comparison found = packed::judge(*data, sums, d, 0);
  EXPECT_EQ(found.verdict(), Verdict::not_judged) << describe(found);
  EXPECT_FALSE(found.passed());
  EXPECT_GT(found.inexact_inputs, 0);
  EXPECT_NE(describe(found).find("not judged"), std::string::npos) << describe(found);
  d[static_cast<size_t>(packed::d_begin(data->problem, 0)) + 3] ^= 0x40;
  EXPECT_EQ(packed::judge(*data, sums, d, 0).verdict(), Verdict::wrong) << "too large hides nothing";
}

TEST(packed_data, one_bit_is_found) {
  PackedProblem p = problems()[1];
  p.d = DType::fp32;
  p.activation = Activation::none;
  const Result<packed::HostData> data = packed::random_data(p, DataKind::exact, 3);
  ASSERT_TRUE(data.ok());
  const std::vector<PackedSum> sums = packed::reference_sums(*data);
  const auto judged = [&](auto&& spoil) {
    std::vector<u8> d = reference_d(*data, 0);
    spoil(d, static_cast<size_t>(packed::d_begin(data->problem, 0)));
    return packed::judge(*data, sums, d, 0);
  };
  EXPECT_TRUE(judged([](auto&, size_t) {}).passed());
  EXPECT_EQ(judged([](auto& d, size_t begin) { d[begin + 4] ^= 1; }).wrong, 1)
      << "the last bit of one output";
  EXPECT_EQ(judged([](auto& d, size_t begin) { std::memset(&d[begin], 0xFF, 4); }).unwritten, 1);
  EXPECT_EQ(judged([](auto& d, size_t begin) { d[begin - 1] = 0; }).damaged_chunks, 1) << "in front of D";
  EXPECT_EQ(judged([](auto& d, size_t) { d.back() = 0; }).damaged_chunks, 1) << "behind D";
  const i64 row = p.n * 4;  // ld_d is n + 1
  if (data->problem.d.ld > p.n) {
    EXPECT_EQ(judged([&](auto& d, size_t begin) { d[begin + static_cast<size_t>(row)] = 0; }).damaged_chunks,
              1);
  }
}

// To see it fail: let scale_of_token() return the first scale for all tokens, or leave the scale out of the
// bound.
TEST(packed_data, a_token_with_the_scale_of_another_is_found) {
  for (const DataKind kind : {DataKind::exact, DataKind::real}) {
    const Result<packed::HostData> data =
        packed::random_data(PackedProblem{.m = 16,
                                          .n = 70,
                                          .k = 256,
                                          .x = DType::e4m3,
                                          .scale_x = ScaleMode::vector,
                                          .d = DType::fp32,
                                          .weights = {.group = 64, .order = FragmentOrder::byte}},
                            kind, 5);
    ASSERT_TRUE(data.ok()) << data.error().message;
    ASSERT_EQ(data->scale_x.size(), 16u * 4);
    size_t far = 0;  // the token whose scale differs most from that of token 1
    const auto distance = [&](size_t token) {
      return std::fabs(
          packed::scale_of_token(*data, static_cast<i64>(token)) / packed::scale_of_token(*data, 1) - 1);
    };
    for (size_t token = 0; token < 16; ++token)
      if (distance(token) > distance(far)) far = token;
    packed::HostData other = *data;
    std::memcpy(&other.scale_x[4], &data->scale_x[far * 4], 4);
    const std::vector<PackedSum> sums = packed::reference_sums(*data);
    EXPECT_TRUE(packed::judge(*data, sums, reference_d(*data, 0), 0).passed());
    const Comparison found = packed::judge(*data, sums, reference_d(other, 0), 0);
    EXPECT_FALSE(found.passed());
    EXPECT_EQ(found.row_low, 1);
    EXPECT_EQ(found.row_high, 1);
  }
}

TEST(packed_data, the_reference_kernel_compiles) {
  const auto compiler = Compiler::load("");
  ASSERT_TRUE(compiler) << compiler.error().message;
  const auto cubin = (*compiler)->compile(packed::reference_unit_text());
  ASSERT_TRUE(cubin) << cubin.error().message;
  EXPECT_EQ(cubin->report.spill_bytes, 0);
  EXPECT_EQ(cubin->report.log, "");
}

}  // namespace
}  // namespace sluice
