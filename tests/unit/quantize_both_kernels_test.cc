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
  /// The slots of all threads. A copy is complete when it starts, so that one which starts too early is seen.
  template <DType kType>
  static Raw<kType>& slot_of(u32 slot) {
    static Raw<kType> slots[simulated_grid::kThreads][kBothStages * quantize::kOwn];
    return slots[threadIdx.x][slot];
  }
  template <DType kType>
  static void start(u32 slot, const void* base, i64 index, bool inside) {
    slot_of<kType>(slot) = load_raw<kType>(base, index, inside);
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
  std::vector<u64> words;
};

void expect_same(const std::vector<float>& got, const std::vector<float>& wanted, const std::string& where) {
  for (std::size_t i = 0; i < wanted.size(); ++i)
    ASSERT_TRUE(got[i] == wanted[i] || (std::isnan(got[i]) && std::isnan(wanted[i])))
        << where << " " << i << ": " << got[i] << ", not " << wanted[i];
}

template <BothConfig kConfig>
void expect_like_reference(const Case& c, unsigned blocks) {
  constexpr Granularity kBy = kConfig.granularity;
  const i64 ld = c.columns + c.pad;
  const i64 up = scale_blocks(c.rows) * 128, rows_ld = c.columns + c.pad, t_ld = up + c.pad;
  Bytes input(c.rows * ld * bytes_of(kConfig.input)), rows(c.rows * rows_ld), columns(c.columns * t_ld);
  for (i64 row = 0; row < c.rows; ++row)
    for (i64 column = 0; column < ld; ++column)
      store_element(kConfig.input, input.data(), row * ld + column,
                    column < c.columns ? value_of(c, row, column) : std::nan(""));
  const auto count_of = [](i64 count) { return std::vector<float>(static_cast<std::size_t>(count), -1.0f); };
  std::vector<float> row_scales = count_of(scale_count(kBy, c.rows, c.columns)),
                     column_scales = count_of(scale_count(kBy, c.columns, c.rows)),
                     sums = count_of(scale_blocks(c.rows) * c.columns);
  std::vector<u32> amaxes(static_cast<std::size_t>(c.rows + c.columns), 0);
  const BothParams params{.input = input.data(),
                          .rows = c.stores_rows ? rows.data() : nullptr,
                          .columns_t = c.stores_columns ? columns.data() : nullptr,
                          .row_scales = row_scales.data(),
                          .column_scales = kBy == Granularity::tensor ? nullptr : column_scales.data(),
                          .sums = c.sums ? sums.data() : nullptr,
                          .amaxes = amaxes.data(),
                          .row_count = c.rows,
                          .column_count = c.columns,
                          .input_ld = ld,
                          .rows_ld = rows_ld,
                          .columns_t_ld = t_ld};
  if constexpr (kBy == Granularity::tensor || kBy == Granularity::row) {
    constexpr BothConfig kFirst{BothStep::amax, kConfig.input, kConfig.output, kBy, kConfig.powers_of_two};
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
      for (const std::string& unit :
           ops::QuantizeBothOp::units({input, input == DType::bf16 ? DType::e4m3 : DType::e5m2, granularity,
                                       input != DType::fp16})) {
        expect_to_compile(**compiler, unit, input == DType::fp32 ? 255 : 128);
      }
}

}  // namespace
}  // namespace sluice
