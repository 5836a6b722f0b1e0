// SPDX-License-Identifier: Apache-2.0
// The kernels that quantise in both orders, on simulated threads over host memory, must equal the reference
// of the matrix and of its transpose in every bit. Covers every granularity, both output types, powers of
// two, partial tiles, pitches, NaN, infinities and tiny values. The units also compile. To see it
// fail: take kSmallestAmax for kSmallestTrainingAmax, or leave the permutation out of one side of
// BothShared::pieces' users (piece_at).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include <sluice/kernels/verify_arith.h>
#include <sluice/names.h>
#include <sluice/plan/text/quantize_units.h>
#include <sluice/reference/element.h>
#include <sluice/reference/quantize.h>
#include <sluice/run/jit/compiler.h>
#include <sluice/run/ops/training/quantize_both.h>

#include "quantize_on_host.h"
//
#include <sluice/kernels/quantize_both.cuh>

namespace sluice {
namespace {

struct BothHostArith : HostArith {
  template <DType kType>
  struct Raw {
    u8 bytes[8 * bytes_of(kType)];
  };
  /// The slots of all threads. A copy is complete when it starts, so that one which starts too early is seen.
  template <DType kType>
  static Raw<kType>& slot_of(u32 slot) {
    static Raw<kType> slots[simulated_grid::kThreads][3 * quantize::kOwn];
    return slots[threadIdx.x][slot];
  }
  template <DType kType>
  static void start(u32 slot, const void* base, i64 index, bool inside) {
    const u8* const from = static_cast<const u8*>(base) + index * bytes_of(kType);
    EXPECT_EQ(reinterpret_cast<u64>(from) % 16, 0u);
    Raw<kType>& raw = slot_of<kType>(slot) = {};
    if (inside) std::memcpy(raw.bytes, from, sizeof raw.bytes);
  }
  template <DType kType>
  static void unpack(const Raw<kType>& raw, float* values) {
    for (int i = 0; i < 8; ++i) values[i] = load_element<kType>(raw.bytes, i);
  }
  template <DType kType>
  static void words_of(const Raw<kType>& raw, u32 (&words)[4]) {
    std::memcpy(words, raw.bytes, 16);
  }
  static float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }
  template <DType kType>
  static Raw<kType> packed(const float (&values)[8]) {
    Raw<kType> raw{};
    for (int i = 0; i < 8; ++i) store_element(kType, raw.bytes, i, values[i]);
    return raw;
  }
  static void commit() {}
  template <int kLeft>
  static void wait() {}
  template <DType kType>
  static Raw<kType> taken(u32 slot) {
    return slot_of<kType>(slot);
  }
  template <DType kType>
  static u32 pack_fp8(float low, float high) {
    return encode_code(kType, low) | static_cast<u32>(encode_code(kType, high)) << 8;
  }
  static u32 larger_pair(u32 a, u32 b) {
    const u32 low = std::max(a & 0xffffu, b & 0xffffu), high = std::max(a >> 16, b >> 16);
    return low | high << 16;
  }
  static u32 chosen_bytes(u32 a, u32 b, u32 which) {
    const u64 all = static_cast<u64>(b) << 32 | a;
    u32 result = 0;
    for (u32 i = 0; i < 4; ++i) result |= static_cast<u32>(all >> (which >> 4 * i & 7) * 8 & 255) << 8 * i;
    return result;
  }
  template <DType kType>
  static float half_of(u32 word, int) {
    return static_cast<float>(sluice::load_element(kType, &word, 0));
  }
};

struct Case {
  i64 rows = 1, columns = 16, pad = 0;
  double magnitude = 1.0;
  bool specials = false;
  bool sums = true;
  bool stores_rows = true, stores_columns = true;
};

double value_of(const Case& c, i64 row, i64 column) {
  const u64 h = verify::hash(7, static_cast<u64>(row * 100000 + column));
  if (c.specials && h % 97 == 0) return h % 2 != 0 ? std::nan("") : INFINITY;
  if (c.specials && (h % 7 == 0 || row == 3)) return 0;
  return (static_cast<double>(h >> 11) * 0x1p-53 - 0.5) * c.magnitude;
}

/// 16-byte aligned bytes, poisoned.
struct Bytes {
  explicit Bytes(i64 count) : words(static_cast<std::size_t>(count / 8 + 4), 0xcdcdcdcdcdcdcdcdu) {}
  u8* data() {
    return reinterpret_cast<u8*>(words.data() + (reinterpret_cast<u64>(words.data()) % 16 == 0 ? 0 : 1));
  }
  const u8* data() const { return const_cast<Bytes*>(this)->data(); }
  std::vector<u64> words;
};

void expect_same(const std::vector<float>& got, const std::vector<float>& wanted, const std::string& where) {
  for (std::size_t i = 0; i < wanted.size(); ++i)
    ASSERT_TRUE(got[i] == wanted[i] || (std::isnan(got[i]) && std::isnan(wanted[i])))
        << where << " " << i << ": " << got[i] << ", not " << wanted[i];
}

/// The matrix that a source makes of `c`'s input and gradient, as a kernel would that writes it.
template <BothConfig kConfig>
Bytes made_of(const Case& c, const Bytes& input, i64 input_ld, const Bytes& gradient, i64 gradient_ld) {
  constexpr bool kGradient = kConfig.source == BothSource::swiglu_gradient;
  const i64 half = kGradient ? c.columns / 2 : c.columns, ld = c.columns;
  Bytes made(c.rows * ld * bytes_of(kConfig.input));
  for (i64 row = 0; row < c.rows; ++row)
    for (i64 column = 0; column < c.columns; ++column) {
      const auto at = [&](i64 i) {
        return static_cast<float>(load_element(kConfig.input, input.data(), row * input_ld + i));
      };
      const i64 j = column % half;
      const float gate = at(j), up = at(half + j), share = BothHostArith::sigmoid(gate);
      float value = HostArith::silu(gate) * up;
      if (kGradient) {
        const auto dy =
            static_cast<float>(load_element(kConfig.input, gradient.data(), row * gradient_ld + j));
        value = dy * (column < half ? up * (share * (1.0f + gate * (1.0f - share))) : gate * share);
        const double x = gate, s = 1 / (1 + std::exp(-x)), slope = s + x * s * (1 - s);
        const double exact = dy * (column < half ? up * slope : x * s);
        EXPECT_NEAR(value, exact, 1e-5 * std::fabs(exact) + 1e-7 * std::fabs(dy * up));
      } else {
        const double exact = gate / (1 + std::exp(-static_cast<double>(gate))) * up;
        EXPECT_NEAR(value, exact, 1e-5 * std::fabs(exact) + 1e-30);
      }
      store_element(kConfig.input, made.data(), row * ld + column, value);
    }
  return made;
}

/// Returns a matrix stored by columns.
std::vector<float> turned(const std::vector<float>& matrix, i64 rows, i64 columns) {
  std::vector<float> result(matrix.size());
  for (i64 row = 0; row < rows; ++row)
    for (i64 column = 0; column < columns; ++column)
      result[static_cast<std::size_t>(column * rows + row)] =
          matrix[static_cast<std::size_t>(row * columns + column)];
  return result;
}

template <BothConfig kConfig>
void expect_like_reference(const Case& c, unsigned blocks) {
  constexpr Granularity kBy = kConfig.granularity;
  constexpr BothSource kSource = kConfig.source;
  const i64 in = kSource == BothSource::swiglu ? 2 * c.columns : c.columns, input_ld = in + c.pad;
  const i64 gradient_ld = c.columns / 2 + c.pad;
  const i64 up = scale_blocks(c.rows) * 128, rows_ld = c.columns + c.pad, t_ld = up + c.pad;
  Bytes given(c.rows * input_ld * bytes_of(kConfig.input)), rows(c.rows * rows_ld), columns(c.columns * t_ld);
  for (i64 row = 0; row < c.rows; ++row)
    for (i64 column = 0; column < input_ld; ++column)
      store_element(kConfig.input, given.data(), row * input_ld + column,
                    column < in ? value_of(c, row, column) : std::nan(""));
  Bytes gradient(c.rows * gradient_ld * bytes_of(kConfig.input));
  for (i64 row = 0; row < c.rows; ++row)
    for (i64 column = 0; column < gradient_ld; ++column)
      store_element(kConfig.input, gradient.data(), row * gradient_ld + column,
                    column < c.columns / 2 ? value_of(c, row + 1000, column) : std::nan(""));
  const bool is_made = kSource != BothSource::matrix;
  const Bytes made = is_made ? made_of<kConfig>(c, given, input_ld, gradient, gradient_ld) : Bytes(0);
  const Bytes& input = is_made ? made : given;
  const i64 ld = is_made ? c.columns : input_ld;
  const auto count_of = [](i64 count) { return std::vector<float>(static_cast<std::size_t>(count), -1.0f); };
  std::vector<float> row_scales = count_of(scale_count(kBy, c.rows, c.columns)),
                     column_scales = count_of(scale_count(kBy, c.columns, c.rows)),
                     sums = count_of(scale_blocks(c.rows) * c.columns);
  std::vector<u32> amaxes(static_cast<std::size_t>(c.rows + c.columns), 0);
  const BothParams params{.input = given.data(),
                          .rows = c.stores_rows ? rows.data() : nullptr,
                          .columns_t = c.stores_columns ? columns.data() : nullptr,
                          .row_scales = row_scales.data(),
                          .column_scales = kBy == Granularity::tensor ? nullptr : column_scales.data(),
                          .sums = c.sums ? sums.data() : nullptr,
                          .amaxes = amaxes.data(),
                          .row_count = c.rows,
                          .column_count = c.columns,
                          .input_ld = input_ld,
                          .rows_ld = rows_ld,
                          .columns_t_ld = t_ld,
                          .gradient = gradient.data(),
                          .gradient_ld = gradient_ld};
  if constexpr (kBy == Granularity::tensor || kBy == Granularity::row) {
    constexpr BothConfig kFirst{BothStep::amax,        kConfig.input, kConfig.output, kBy,
                                kConfig.powers_of_two, kSource};
    simulated_grid::launch(blocks, [&] { quantize::run_both<kFirst, BothHostArith>(params); });
  }
  simulated_grid::launch(blocks, [&] { quantize::run_both<kConfig, BothHostArith>(params); });

  const ScaleRule rule{1e-12f, kConfig.output, kConfig.powers_of_two};
  const QuantizeInput matrix{kConfig.input, input.data(), c.rows, c.columns, ld};
  QuantizeInput transpose = matrix;
  std::swap(transpose.rows, transpose.columns);
  transpose.transposed = true;
  Bytes wanted(c.rows * rows_ld), wanted_t(c.columns * t_ld);
  for (i64 column = 0; c.stores_columns && column < c.columns; ++column)
    std::memset(wanted_t.data() + column * t_ld, 0, static_cast<std::size_t>(up));
  std::vector<float> wanted_scales = count_of(scale_count(kBy, c.rows, c.columns)),
                     wanted_scales_t = count_of(scale_count(kBy, c.columns, c.rows));
  Bytes unused(c.rows * rows_ld);  // codes of a matrix whose scale alone is wanted
  if (c.stores_rows || kBy == Granularity::tensor)
    reference_quantize(matrix, kBy, c.stores_rows ? wanted.data() : unused.data(), rows_ld,
                       wanted_scales.data(), rule);
  if (c.stores_columns)
    reference_quantize(transpose, kBy, wanted_t.data(), t_ld, wanted_scales_t.data(), rule);
  const std::string where = std::string(name_of(kBy)) + " " + name_of(kConfig.input) + " > " +
                            name_of(kConfig.output) + " " + std::to_string(c.rows) + "x" +
                            std::to_string(c.columns);
  EXPECT_EQ(std::memcmp(rows.data(), wanted.data(), static_cast<std::size_t>(c.rows * rows_ld)), 0) << where;
  EXPECT_EQ(std::memcmp(columns.data(), wanted_t.data(), static_cast<std::size_t>(c.columns * t_ld)), 0)
      << where << " columns";
  if (kBy == Granularity::row_block)
    wanted_scales_t = turned(wanted_scales_t, c.columns, scale_blocks(c.rows));
  expect_same(row_scales, wanted_scales, where + " row scale");
  if (kBy != Granularity::tensor) expect_same(column_scales, wanted_scales_t, where + " column scale");
  if (!c.sums || c.specials) return;
  for (i64 block = 0; block < scale_blocks(c.rows); ++block)
    for (i64 column = 0; column < c.columns; ++column) {
      double sum = 0, most = 0;
      for (i64 row = block * 128; row < std::min(c.rows, block * 128 + 128); ++row) {
        const double value = load_element(kConfig.input, input.data(), row * ld + column);
        sum += value;
        most += std::fabs(value);
      }
      ASSERT_NEAR(sums[static_cast<std::size_t>(block * c.columns + column)], sum, most * 0x1p-21) << where;
    }
}

template <Granularity kBy, DType kOutput, bool kPowers>
void expect_all_types(const Case& c, unsigned blocks) {
  expect_like_reference<BothConfig{BothStep::cast, DType::bf16, kOutput, kBy, kPowers}>(c, blocks);
  expect_like_reference<BothConfig{BothStep::cast, DType::fp16, kOutput, kBy, kPowers}>(c, blocks);
  expect_like_reference<BothConfig{BothStep::cast, DType::fp32, kOutput, kBy, kPowers}>(c, blocks);
}

template <class>
class quantize_both_kernels : public ::testing::Test {};
template <Granularity kBy>
struct By {
  static constexpr Granularity kGranularity = kBy;
};
using Granularities = ::testing::Types<By<Granularity::tensor>, By<Granularity::row>,
                                       By<Granularity::row_block>, By<Granularity::square_block>>;
TYPED_TEST_SUITE(quantize_both_kernels, Granularities);

TYPED_TEST(quantize_both_kernels, give_the_bits_of_the_reference) {
  constexpr Granularity kBy = TypeParam::kGranularity;
  expect_all_types<kBy, DType::e4m3, false>({.rows = 1, .columns = 16}, 1);
  expect_all_types<kBy, DType::e4m3, true>({.rows = 130, .columns = 144, .pad = 16}, 3);
  expect_like_reference<BothConfig{BothStep::cast, DType::bf16, DType::e4m3, kBy, false}>(
      {.rows = 1300, .columns = 144}, 5);  // two bands, the second partial
  expect_all_types<kBy, DType::e5m2, false>({.rows = 127, .columns = 256, .sums = false}, 1);
  expect_like_reference<BothConfig{BothStep::cast, DType::bf16, DType::e5m2, kBy, true}>(
      {.rows = 129, .columns = 32}, 2);
}

/// SwiGLU and its gradient. Tiles of 144 and of 272 columns have some of gate and some of up.
TYPED_TEST(quantize_both_kernels, give_the_bits_of_the_reference_of_swiglu) {
  constexpr Granularity kBy = TypeParam::kGranularity;
  constexpr BothConfig kForward{BothStep::cast, DType::bf16, DType::e4m3, kBy, true, BothSource::swiglu};
  constexpr BothConfig kBackward{
      BothStep::cast, DType::bf16, DType::e5m2, kBy, false, BothSource::swiglu_gradient};
  constexpr BothConfig kOfHalf{
      BothStep::cast, DType::fp16, DType::e4m3, kBy, true, BothSource::swiglu_gradient};
  const Case small{.rows = 5, .columns = 32, .magnitude = 8}, odd{.rows = 130, .columns = 144, .pad = 16};
  expect_like_reference<kForward>(small, 1);
  expect_like_reference<kForward>(odd, 3);
  expect_like_reference<kBackward>(small, 1);
  expect_like_reference<kBackward>(odd, 2);
  expect_like_reference<kBackward>({.rows = 257, .columns = 272, .magnitude = 4}, 2);
  expect_like_reference<kOfHalf>({.rows = 129, .columns = 256, .magnitude = 16}, 1);
  expect_like_reference<kOfHalf>({.rows = 1300, .columns = 48, .magnitude = 4, .sums = false},
                                 3);  // two bands
  expect_like_reference<kForward>({.rows = 129, .columns = 144, .magnitude = 4, .stores_columns = false}, 1);
  expect_like_reference<kBackward>({.rows = 129, .columns = 144, .magnitude = 4, .stores_rows = false}, 1);
}

TYPED_TEST(quantize_both_kernels, keep_to_the_rules_at_the_ends_of_the_range) {
  constexpr Granularity kBy = TypeParam::kGranularity;
  expect_all_types<kBy, DType::e4m3, false>({.rows = 5, .columns = 32, .magnitude = 1e-6}, 1);
  constexpr BothConfig kBf16{BothStep::cast, DType::bf16, DType::e4m3, kBy, true};
  for (const double magnitude : {1e-11, 1e-13, 1e-20, 1e37})
    expect_like_reference<kBf16>({.rows = 5, .columns = 32, .magnitude = magnitude}, 1);
  expect_all_types<kBy, DType::e4m3, true>({.rows = 9, .columns = 144, .specials = true}, 2);
}

TYPED_TEST(quantize_both_kernels, store_one_order_alone) {
  constexpr Granularity kBy = TypeParam::kGranularity;
  constexpr BothConfig kBf16{BothStep::cast, DType::bf16, DType::e4m3, kBy, false};
  expect_like_reference<kBf16>({.rows = 130, .columns = 144, .stores_columns = false}, 1);
  expect_like_reference<kBf16>({.rows = 130, .columns = 144, .stores_rows = false}, 1);
}

TEST(quantize_both_units, compile_for_hopper_without_spills_or_warnings) {
  const auto compiler = Compiler::load("");
  ASSERT_TRUE(compiler) << compiler.error().message;
  for (const Granularity granularity : kGranularities)
    for (const DType input : {DType::bf16, DType::fp16, DType::fp32})
      for (const BothSource source : {BothSource::matrix, BothSource::swiglu, BothSource::swiglu_gradient}) {
        if (source != BothSource::matrix && input == DType::fp32) continue;
        for (const std::string& unit :
             ops::QuantizeBothOp::units({input, input == DType::bf16 ? DType::e4m3 : DType::e5m2, granularity,
                                         input != DType::fp16, source}))
          expect_to_compile(**compiler, unit, input == DType::fp32 ? 255 : 128);
      }
}

}  // namespace
}  // namespace sluice
