// SPDX-License-Identifier: Apache-2.0
// The quantising kernels on simulated threads over host memory must equal the reference in every bit. Covers
// every step and input type, with and without vectors, partial blocks, pitches, NaN, infinities, tiny and
// huge values. The units also compile. To see it fail: leave the clamp at 1e-4 out of scale_of, or use `<=`
// in load's check of columns.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include <sluice/kernels/verify_arith.h>
#include <sluice/plan/text/quantize_units.h>
#include <sluice/quantize.h>
#include <sluice/reference/element.h>
#include <sluice/reference/experts.h>
#include <sluice/reference/quantize.h>
#include <sluice/run/jit/compiler.h>

#include "quantize_on_host.h"

namespace sluice {
namespace {

struct Case {
  DType type = DType::bf16;
  i64 rows = 1, columns = 1, input_pad = 0, output_pad = 0;
  double magnitude = 1.0;
  bool specials = false;
  Gate gate = Gate::none;
};

class Matrix8 {  // an input, and the reference's output
 public:
  Matrix8(const Case& c, u64 seed)
      : c_(c), ld_(input_columns(c.gate, c.columns) + c.input_pad), output_ld_(c.columns + c.output_pad) {
    input_ = std::make_unique<u8[]>(static_cast<std::size_t>(c.rows * ld_ * bytes_of(c.type) + 32));
    for (i64 row = 0; row < c.rows; ++row)
      for (i64 column = 0; column < ld_; ++column) {
        const u64 h = verify::hash(seed, static_cast<u64>(row * ld_ + column));
        double value = (static_cast<double>(h >> 11) * 0x1p-53 - 0.5) * c.magnitude;
        if (column >= input_columns(c.gate, c.columns))
          value = std::nan("");  // padding must not be read
        else if (c.specials && h % 97 == 0)
          value = h % 2 != 0 ? std::nan("") : INFINITY;
        else if (c.specials && h % 7 == 0)
          value = h % 2 != 0 ? -0.0 : 0.0;
        store_element(c.type, input(), row * ld_ + column, value);
      }
  }
  u8* input() const { return input_.get() + (16 - reinterpret_cast<u64>(input_.get()) % 16) % 16; }
  i64 ld() const { return ld_; }
  i64 output_ld() const { return output_ld_; }
  i64 output_bytes() const { return c_.rows * output_ld_; }
  QuantizeInput reference_input() const { return {c_.type, input(), c_.rows, c_.columns, ld_, c_.gate}; }

 private:
  Case c_;
  i64 ld_, output_ld_;
  std::unique_ptr<u8[]> input_;
};

template <QuantizeConfig kConfig>
void simulate(const QuantizeParams& params, unsigned blocks) {
  simulated_grid::launch(blocks, [&] { quantize::run<kConfig, HostArith>(params); });
}

template <DType kType, bool kVectors, Gate kGate>
void run_steps(Granularity granularity, const QuantizeParams& params, unsigned blocks) {
  switch (granularity) {
    case Granularity::tensor:
      simulate<QuantizeConfig{QuantizeStep::amax, kType, kVectors, kGate}>(params, blocks);
      return simulate<QuantizeConfig{QuantizeStep::cast, kType, kVectors, kGate}>(params, blocks);
    case Granularity::row:
      return simulate<QuantizeConfig{QuantizeStep::row, kType, kVectors, kGate}>(params, blocks);
    case Granularity::row_block:
      return simulate<QuantizeConfig{QuantizeStep::row_block, kType, kVectors, kGate}>(params, blocks);
    case Granularity::square_block:
      return simulate<QuantizeConfig{QuantizeStep::square_block, kType, kVectors, kGate}>(params, blocks);
  }
}

template <DType kType>
void expect_like_reference(Granularity granularity, Case c, bool vectors, unsigned blocks) {
  c.type = kType;
  const Matrix8 matrix(c, static_cast<u64>(c.rows * 1000 + c.columns));
  const auto scales = static_cast<std::size_t>(scale_count(granularity, c.rows, c.columns));
  const auto bytes = static_cast<std::size_t>(matrix.output_bytes());
  std::vector<u8> wanted(bytes, 0xcd);
  std::vector<u64> got_words(bytes / 8 + 1, 0xcdcdcdcdcdcdcdcdu);  // u64, so that the bytes are aligned
  std::vector<float> wanted_scales(scales, -1.0f), got_scales(scales, -1.0f);
  u32 scratch[2] = {0, 0};
  reference_quantize(matrix.reference_input(), granularity, wanted.data(), matrix.output_ld(),
                     wanted_scales.data());
  const QuantizeParams params{.input = matrix.input(),
                              .output = reinterpret_cast<u8*>(got_words.data()),
                              .scales = got_scales.data(),
                              .scratch = scratch,
                              .rows = c.rows,
                              .columns = c.columns,
                              .input_ld = matrix.ld(),
                              .output_ld = matrix.output_ld(),
                              .scale_given = false,
                              .hand_off = {}};
  if (c.gate == Gate::silu)
    vectors ? run_steps<kType, true, Gate::silu>(granularity, params, blocks)
            : run_steps<kType, false, Gate::silu>(granularity, params, blocks);
  else
    vectors ? run_steps<kType, true, Gate::none>(granularity, params, blocks)
            : run_steps<kType, false, Gate::none>(granularity, params, blocks);
  const std::string where = std::string(name_of(granularity)) + " " + name_of(kType) + " " +
                            std::to_string(c.rows) + "x" + std::to_string(c.columns) +
                            (vectors ? " vectors" : " elements");
  EXPECT_EQ(std::memcmp(got_words.data(), wanted.data(), bytes), 0) << where;
  for (std::size_t i = 0; i < scales; ++i)
    ASSERT_TRUE(got_scales[i] == wanted_scales[i] ||
                (std::isnan(got_scales[i]) && std::isnan(wanted_scales[i])))
        << where << " scale " << i << ": " << got_scales[i] << ", not " << wanted_scales[i];
  EXPECT_EQ(scratch[0], 0u) << where;
  EXPECT_EQ(scratch[1], 0u) << where;
}

void expect_all_types(Granularity granularity, const Case& c, bool vectors, unsigned blocks) {
  expect_like_reference<DType::bf16>(granularity, c, vectors, blocks);
  expect_like_reference<DType::fp16>(granularity, c, vectors, blocks);
  expect_like_reference<DType::fp32>(granularity, c, vectors, blocks);
}

class quantize_kernels : public ::testing::TestWithParam<Granularity> {};

TEST_P(quantize_kernels, give_the_bits_of_the_reference) {
  for (const bool vectors : {true, false}) {
    expect_all_types(GetParam(), {.rows = 5, .columns = 256}, vectors, 2);
    const i64 rows =
        GetParam() == Granularity::row ? 13 : 130;  // few cases, because simulating a row is slow
    expect_all_types(GetParam(), {.rows = rows, .columns = 136, .input_pad = 8, .output_pad = 16}, vectors,
                     3);
  }
  expect_all_types(GetParam(), {.rows = 3, .columns = 131, .input_pad = 3, .output_pad = 1}, false, 1);
  expect_all_types(GetParam(), {.rows = 1, .columns = 1}, false, 1);
}

TEST_P(quantize_kernels, keep_to_the_rules_at_the_ends_of_the_range) {
  for (const double magnitude : {1e-6, 2e-4, 6e4})
    expect_all_types(GetParam(), {.rows = 7, .columns = 256, .magnitude = magnitude}, true, 1);
  expect_like_reference<DType::bf16>(GetParam(), {.rows = 7, .columns = 264, .magnitude = 1e38}, true, 1);
  expect_all_types(GetParam(), {.rows = 9, .columns = 640, .specials = true}, true, 2);
}

TEST_P(quantize_kernels, of_gated_inputs) {
  expect_all_types(GetParam(),
                   {.rows = 5, .columns = 264, .input_pad = 8, .magnitude = 8, .gate = Gate::silu}, true, 2);
  expect_all_types(GetParam(),
                   {.rows = 3, .columns = 131, .input_pad = 3, .magnitude = 8, .gate = Gate::silu}, false, 1);
  expect_all_types(GetParam(), {.rows = 9, .columns = 640, .specials = true, .gate = Gate::silu}, true, 2);
}

INSTANTIATE_TEST_SUITE_P(all, quantize_kernels,
                         ::testing::Values(Granularity::tensor, Granularity::row, Granularity::row_block,
                                           Granularity::square_block),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(quantize_kernels, rows_longer_than_a_block_holds) {
  expect_like_reference<DType::bf16>(Granularity::row, {.rows = 2, .columns = 9000}, true, 1);
  expect_like_reference<DType::bf16>(Granularity::row, {.rows = 1, .columns = 15000, .gate = Gate::silu},
                                     true, 1);
}

/// Checks silu(gate) * up on its own.
template <DType kType, bool kVectors>
void expect_plain_like_reference(Case c, unsigned blocks) {
  c.type = kType;
  c.gate = Gate::silu;
  const Matrix8 matrix(c, static_cast<u64>(c.rows * 1000 + c.columns));
  const auto elements = static_cast<std::size_t>(matrix.output_bytes());
  std::vector<u16> wanted(elements, 0xcdcd);
  std::vector<u64> got_words(elements / 4 + 4, 0xcdcdcdcdcdcdcdcdu);
  u16* got = reinterpret_cast<u16*>(got_words.data());
  if (reinterpret_cast<u64>(got) % 16 != 0) got += 4;
  reference_gated(matrix.reference_input(), wanted.data(), matrix.output_ld());
  const QuantizeParams params{.input = matrix.input(),
                              .output = reinterpret_cast<u8*>(got),
                              .scales = nullptr,
                              .scratch = nullptr,
                              .rows = c.rows,
                              .columns = c.columns,
                              .input_ld = matrix.ld(),
                              .output_ld = matrix.output_ld(),
                              .scale_given = false,
                              .hand_off = {}};
  simulate<QuantizeConfig{QuantizeStep::plain, kType, kVectors, Gate::silu}>(params, blocks);
  EXPECT_EQ(std::memcmp(got, wanted.data(), 2 * elements), 0)
      << name_of(kType) << " " << c.rows << "x" << c.columns << (kVectors ? " vectors" : " elements");
}

TEST(quantize_kernels, without_a_granularity_give_the_gated_values_themselves) {
  const Case packed{.rows = 5, .columns = 264, .magnitude = 8};
  const Case pitched{.rows = 9, .columns = 640, .input_pad = 8, .output_pad = 16, .magnitude = 8};
  for (const unsigned blocks : {1u, 3u}) {
    expect_plain_like_reference<DType::bf16, true>(packed, blocks);
    expect_plain_like_reference<DType::fp16, true>(pitched, blocks);
    expect_plain_like_reference<DType::bf16, false>(pitched, blocks);
    expect_plain_like_reference<DType::fp16, false>(
        {.rows = 3, .columns = 131, .input_pad = 3, .output_pad = 1, .magnitude = 1e4}, blocks);
  }
}

/// Row numbers of every kind: spread, repeated, missing, and outside the input.
std::vector<int> drawn_rows(i64 rows, i64 input_rows) {
  std::vector<int> index;
  for (i64 row = 0; row < rows; ++row) {
    const u64 h = verify::hash(3, static_cast<u64>(row));
    const int strange[] = {-1, static_cast<int>(input_rows), -2147483647 - 1, 2147483647};
    index.push_back(h % 4 == 0 ? strange[h / 4 % 4] : static_cast<int>(h / 4 % static_cast<u64>(input_rows)));
  }
  return index;
}

template <QuantizeConfig kConfig>
void expect_gathered(Case c, i64 rows, unsigned blocks) {
  c.type = kConfig.input;
  c.gate = kConfig.gate;
  constexpr bool kCodes = kConfig.step != QuantizeStep::plain;
  constexpr Granularity kBy = kConfig.step == QuantizeStep::row ? Granularity::row : Granularity::row_block;
  const Matrix8 matrix(c, 77);
  const std::vector<int> index = drawn_rows(rows, c.rows);
  const i64 in_columns = input_columns(c.gate, c.columns), element = bytes_of(c.type);
  const std::vector<u8> gathered =
      reference_gather(matrix.input(), c.rows, in_columns * element, matrix.ld() * element, index);
  const i64 ld = matrix.output_ld(), bytes = rows * ld * (kCodes ? 1 : element);
  const auto scales = static_cast<std::size_t>(scale_count(kBy, rows, c.columns));
  std::vector<u8> wanted(static_cast<std::size_t>(bytes), 0xcd);
  std::vector<u64> got_words(wanted.size() / 8 + 4, 0xcdcdcdcdcdcdcdcdu);
  u64* const got = got_words.data() + (reinterpret_cast<u64>(got_words.data()) % 16 == 0 ? 0 : 1);
  std::vector<float> wanted_scales(scales, -1.0f), got_scales(scales, -1.0f);
  const QuantizeInput reference{c.type, gathered.data(), rows, c.columns, in_columns, c.gate};
  if constexpr (kCodes)
    reference_quantize(reference, kBy, wanted.data(), ld, wanted_scales.data());
  else if (c.gate == Gate::silu)
    reference_gated(reference, wanted.data(), ld);
  else
    for (i64 row = 0; row < rows; ++row)
      std::memcpy(wanted.data() + row * ld * element, gathered.data() + row * in_columns * element,
                  static_cast<std::size_t>(in_columns * element));
  for (std::size_t i = 0; i < scales; ++i) {
    const int source = index[i / (scales / static_cast<std::size_t>(rows))];
    if (source < 0 || source >= c.rows) wanted_scales[i] = 1.0f;
  }
  const GatherParams params{{.input = matrix.input(),
                             .output = reinterpret_cast<u8*>(got),
                             .scales = got_scales.data(),
                             .scratch = nullptr,
                             .rows = rows,
                             .columns = c.columns,
                             .input_ld = matrix.ld(),
                             .output_ld = ld,
                             .scale_given = false,
                             .hand_off = {}},
                            index.data(),
                            c.rows};
  simulated_grid::launch(blocks, [&] { quantize::run<kConfig, HostArith>(params); });
  EXPECT_EQ(std::memcmp(got, wanted.data(), wanted.size()), 0) << rows << " of " << c.rows << " rows";
  for (std::size_t i = 0; kCodes && i < scales; ++i)
    ASSERT_TRUE(got_scales[i] == wanted_scales[i] ||
                (std::isnan(got_scales[i]) && std::isnan(wanted_scales[i])))
        << "scale " << i << ": " << got_scales[i] << ", not " << wanted_scales[i];
}

template <QuantizeStep kStep, DType kType, Gate kGate>
void expect_gathered_both_ways() {
  for (const i64 rows : {i64{1}, i64{37}}) {
    expect_gathered<QuantizeConfig{.step = kStep, .input = kType, .gate = kGate, .gathered = true}>(
        {.rows = 11, .columns = 264, .input_pad = 8, .output_pad = 16, .specials = true}, rows, 2);
    expect_gathered<QuantizeConfig{
        .step = kStep, .input = kType, .vectors = false, .gate = kGate, .gathered = true}>(
        {.rows = 3, .columns = 131, .input_pad = 3, .output_pad = 1, .specials = true}, rows, 1);
  }
}

/// To see it fail: compare `source` with p.rows in source_of(), or store scale.scale in `stored`.
TEST(quantize_kernels, of_gathered_rows_read_the_rows_that_a_table_names) {
  expect_gathered_both_ways<QuantizeStep::row_block, DType::bf16, Gate::none>();
  expect_gathered_both_ways<QuantizeStep::row_block, DType::fp32, Gate::none>();
  expect_gathered_both_ways<QuantizeStep::row_block, DType::fp16, Gate::silu>();
  expect_gathered_both_ways<QuantizeStep::row, DType::bf16, Gate::none>();
  expect_gathered_both_ways<QuantizeStep::row, DType::fp16, Gate::silu>();
  expect_gathered_both_ways<QuantizeStep::plain, DType::bf16, Gate::none>();
  expect_gathered_both_ways<QuantizeStep::plain, DType::fp16, Gate::none>();
  expect_gathered_both_ways<QuantizeStep::plain, DType::bf16, Gate::silu>();
}

TEST(quantize_units, compile_for_hopper_without_spills_or_warnings) {
  const auto compiler = Compiler::load("");
  ASSERT_TRUE(compiler) << compiler.error().message;
  for (const Granularity granularity : kGranularities)
    for (const DType input : {DType::bf16, DType::fp16, DType::fp32})
      for (const Gate gate : kGates)
        for (const std::string& unit : quantize_units(input, granularity, gate))
          expect_to_compile(**compiler, unit);
  for (const DType input : {DType::bf16, DType::fp16})
    for (const Overlap overlap : {Overlap{}, Overlap{Wait::first, Trigger::after_loads}})
      for (const std::string& unit : quantize_units(input, {}, Gate::silu, overlap))
        expect_to_compile(**compiler, unit);
}

TEST(quantize_units, of_chains_compile_and_plain_ones_do_not_name_an_overlap) {
  const auto compiler = Compiler::load("");
  ASSERT_TRUE(compiler) << compiler.error().message;
  for (const Granularity granularity : kGranularities)
    for (const Trigger trigger : {Trigger::at_start, Trigger::after_loads})
      for (const std::string& unit :
           quantize_units(DType::bf16, granularity, Gate::silu, {Wait::first, trigger})) {
        EXPECT_NE(unit.find(".wait = sluice::Wait::first"), std::string::npos) << unit;
        expect_to_compile(**compiler, unit);
      }
  for (const std::string& unit : quantize_units(DType::bf16, Granularity::row, Gate::none))
    EXPECT_EQ(unit.find(".overlap = "), std::string::npos) << unit;
}

TEST(quantize_units, of_gathered_rows_compile) {
  const auto compiler = Compiler::load("");
  ASSERT_TRUE(compiler) << compiler.error().message;
  for (const DType input : {DType::bf16, DType::fp16})
    for (const Overlap overlap : {Overlap{}, Overlap{Wait::first, Trigger::after_loads}}) {
      for (const std::string& unit : quantize_units(input, {}, Gate::none, overlap, true))
        expect_to_compile(**compiler, unit);
      for (const Granularity granularity : kGranularities)
        for (const std::string& unit : quantize_units(input, granularity, Gate::none, overlap, true))
          expect_to_compile(**compiler, unit);
    }
}

}  // namespace
}  // namespace sluice
