// SPDX-License-Identifier: Apache-2.0
// Quantisers on the GPU, compared with the reference bit for bit. This covers conversions, loads, and the
// counters between two kernels, which the simulated grid lacks.
#include <sluice/quantize.h>

#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include <sluice/kernels/verify_arith.h>
#include <sluice/plan/text/quantize_units.h>
#include <sluice/reference/element.h>
#include <sluice/reference/quantize.h>
#include <sluice/run/driver/memory.h>

#include "gpu.h"
#include "lab/random/dice.h"

namespace sluice::testing {
namespace {

struct Case {
  DType type;
  Granularity granularity;
  i64 rows, columns, pad;
  int shift;  // elements by which the input's address is off alignment
  Gate gate = Gate::none;
};

Case random_case(Granularity granularity, i64 number) {
  Dice dice(verify::hash(7, static_cast<u64>(number)));
  const bool vectors = dice.one_in(2);
  const i64 unit = vectors ? 8 : 1, rows = dice.one_in(2) ? dice.between(1, 5) : dice.between(1, 200);
  constexpr DType kTypes[] = {DType::bf16, DType::fp16, DType::fp32};
  return {.type = dice.any_of(kTypes),
          .granularity = granularity,
          .rows = rows,
          .columns = unit * dice.between(1, static_cast<int>((rows < 6 ? 16000 : 2000) / unit)),
          .pad = unit * dice.between(0, 3),
          .shift = static_cast<int>(unit) * dice.between(0, 2),
          .gate = dice.any_of(kGates)};
}

class quantize : public GpuTest, public ::testing::WithParamInterface<Granularity> {
 protected:
  void expect_like_reference(const Case& c, const Workspace& workspace) {
    const i64 in_columns = input_columns(c.gate, c.columns);
    const i64 ld = in_columns + c.pad, scales = scale_count(c.granularity, c.rows, c.columns);
    const i64 elements = c.rows * ld + c.shift;
    std::vector<u8> input(static_cast<std::size_t>(elements * bytes_of(c.type)), 0xff);
    for (i64 row = 0; row < c.rows; ++row)
      for (i64 column = 0; column < in_columns; ++column) {
        const u64 h =
            verify::hash(static_cast<u64>(c.rows * 31 + c.columns), static_cast<u64>(row * ld + column));
        double value = (static_cast<double>(h >> 11) * 0x1p-53 - 0.5) * (h % 1021 == 0 ? 3e4 : 2.0);
        // These gates are 0, or so large that silu leaves them unchanged, so silu(gate) is exact.
        if (c.gate != Gate::none && column < c.columns)
          value = h % 5 == 0 ? 0.0 : static_cast<double>(64 + h % 64);
        else if (h % 4093 == 1)
          value = h % 2 != 0 ? std::nan("") : INFINITY;
        store_element(c.type, input.data(), c.shift + row * ld + column, value);
      }
    std::vector<u8> wanted(static_cast<std::size_t>(c.rows * ld), 0xcd), got(wanted.size());
    std::vector<float> wanted_scales(static_cast<std::size_t>(scales)), got_scales(wanted_scales.size());
    const u8* first = input.data() + c.shift * bytes_of(c.type);
    reference_quantize({c.type, first, c.rows, c.columns, ld, c.gate}, c.granularity, wanted.data(), ld,
                       wanted_scales.data());

    const auto in = DeviceBuffer::allocate(device(), static_cast<i64>(input.size()));
    const auto out = DeviceBuffer::allocate(device(), static_cast<i64>(got.size()));
    const auto factors = DeviceBuffer::allocate(device(), scales * 4);
    ASSERT_TRUE(ok(in) && ok(out) && ok(factors));
    ASSERT_TRUE(ok(in->upload(input.data(), static_cast<i64>(input.size()))));
    ASSERT_TRUE(ok(out->fill(0xcd, nullptr)));
    const auto quantizer = Quantizer::create(device(), c.type, c.granularity, c.gate);
    ASSERT_TRUE(ok(quantizer));
    const QuantizeArgs args{.input = static_cast<u8*>(in->data()) + c.shift * bytes_of(c.type),
                            .output = out->data(),
                            .scales = static_cast<float*>(factors->data()),
                            .workspace = workspace.view()};
    for (int repeat = 0; repeat < 2; ++repeat) {
      ASSERT_TRUE(ok(quantizer->launch({c.rows, c.columns, ld, ld}, args, nullptr)));
      ASSERT_TRUE(ok(synchronize(device())));
      ASSERT_TRUE(ok(out->download(got.data(), static_cast<i64>(got.size()))));
      ASSERT_TRUE(ok(factors->download(got_scales.data(), scales * 4)));
      const std::string where = std::string(name_of(c.granularity)) + " " + name_of(c.type) + " " +
                                std::to_string(c.rows) + "x" + std::to_string(c.columns) + " ld " +
                                std::to_string(ld) + " shift " + std::to_string(c.shift);
      i64 wrong = 0;
      for (std::size_t i = 0; i < got.size(); ++i)
        wrong += got[i] != wanted[i] && !((got[i] & 0x7f) == 0x7f && (wanted[i] & 0x7f) == 0x7f) ? 1 : 0;
      EXPECT_EQ(wrong, 0) << where;
      for (std::size_t i = 0; i < got_scales.size(); ++i)
        ASSERT_TRUE(got_scales[i] == wanted_scales[i] ||
                    (std::isnan(got_scales[i]) && std::isnan(wanted_scales[i])))
            << where << ": scale " << i << " is " << got_scales[i] << ", not " << wanted_scales[i];
    }
  }
};

TEST_P(quantize, gives_the_bits_of_the_reference) {
  const auto workspace = Workspace::create(device(), kWorkspaceCounterBytes);
  ASSERT_TRUE(ok(workspace));
  for (const DType type : {DType::bf16, DType::fp16, DType::fp32})
    for (const auto& [rows, columns, pad, shift] : {std::tuple<i64, i64, i64, int>{1, 8, 0, 0},
                                                    {1, 1, 0, 0},
                                                    {257, 4096, 0, 0},
                                                    {64, 7168, 64, 0},
                                                    {129, 1000, 3, 1},
                                                    {3, 20000, 0, 0},
                                                    {2, 14336, 0, 0},
                                                    {40, 14336, 0, 0},
                                                    {1000, 136, 8, 0},
                                                    {4097, 384, 0, 8}})
      for (const Gate gate : kGates)
        expect_like_reference({type, GetParam(), rows, columns, pad, shift, gate}, *workspace);
  EXPECT_TRUE(ok(workspace->verify())) << "the tensor's steps leave their counters as they found them";
}

// SLUICE_QUANTIZE_CASES: number of cases. SLUICE_QUANTIZE_FIRST: number of the first one.
TEST_P(quantize, of_random_shapes) {
  const i64 count = setting("SLUICE_QUANTIZE_CASES", 40), first = setting("SLUICE_QUANTIZE_FIRST", 0);
  const auto workspace = Workspace::create(device(), kWorkspaceCounterBytes);
  ASSERT_TRUE(ok(workspace));
  for (i64 i = first; i < first + count && !HasFailure(); ++i)
    expect_like_reference(random_case(GetParam(), i), *workspace);
  EXPECT_TRUE(ok(workspace->verify())) << "the tensor's steps leave their counters as they found them";
}

// Covers the cases of QUANTISERS in tools/gpu_sanitize.py.
TEST(pool, covers_every_quantiser_in_what_sanitizers_run) {
  std::set<std::string> seen;
  for (i64 i = 0; i < 32; ++i) {
    const Case c = random_case(Granularity::row, i);
    const bool vectors = c.columns % 8 == 0 && c.pad % 8 == 0 && c.shift % 8 == 0;
    seen.insert(std::string(name_of(c.type)) + (c.gate == Gate::silu ? " gated" : "") +
                (vectors ? " vectors" : ""));
  }
  EXPECT_EQ(seen.size(), 3u * 2 * 2);
}

class silu_times_up : public GpuTest {};

/// The gates are 0, or so large that silu leaves them unchanged, so silu(gate) is exact.
TEST_F(silu_times_up, values_have_the_bits_of_the_reference) {
  struct Shape {
    i64 rows, columns, pad;
    int shift;
  };
  for (const DType type : {DType::bf16, DType::fp16})
    for (const auto& [rows, columns, pad, shift] : {Shape{1, 8, 0, 0},
                                                    {1, 1, 0, 0},
                                                    {1, 14336, 0, 0},
                                                    {16, 14336, 0, 0},
                                                    {257, 4096, 64, 0},
                                                    {129, 1000, 3, 1},
                                                    {1000, 136, 8, 4},
                                                    {4097, 384, 0, 8}}) {
      const i64 ld = 2 * columns + pad, elements = rows * ld + shift;
      const auto at = [ld = ld](i64 row, i64 column) { return row * ld + column; };
      std::vector<u8> input(static_cast<std::size_t>(2 * elements));
      for (i64 i = 0; i < elements; ++i) {
        const u64 h = verify::hash(static_cast<u64>(rows + columns), static_cast<u64>(i));
        const bool is_gate = i >= shift && (i - shift) % ld < columns;
        const double value = is_gate ? (h % 5 == 0 ? 0.0 : static_cast<double>(64 + h % 64))
                                     : static_cast<double>(h >> 11) * 0x1p-53 - 0.5;
        store_element(type, input.data(), i, h % 4093 == 1 ? std::nan("") : value);
      }
      std::vector<u8> wanted(static_cast<std::size_t>(2 * rows * ld), 0xcd), got(wanted.size());
      reference_gated({type, input.data() + 2 * shift, rows, columns, ld, Gate::silu}, wanted.data(), ld);
      const auto in = DeviceBuffer::allocate(device(), static_cast<i64>(input.size()));
      const auto out = DeviceBuffer::allocate(device(), static_cast<i64>(got.size()));
      ASSERT_TRUE(ok(in) && ok(out));
      ASSERT_TRUE(ok(in->upload(input.data(), in->bytes())));
      ASSERT_TRUE(ok(out->fill(0xcd, nullptr)));
      const auto made = Quantizer::create(device(), type, {}, Gate::silu);
      ASSERT_TRUE(ok(made));
      ASSERT_TRUE(ok(made->launch({rows, columns, ld, ld},
                                  {.input = static_cast<u8*>(in->data()) + 2 * shift, .output = out->data()},
                                  nullptr)));
      ASSERT_TRUE(ok(synchronize(device())));
      ASSERT_TRUE(ok(out->download(got.data(), out->bytes())));
      i64 wrong = 0;
      for (i64 row = 0; row < rows; ++row)
        for (i64 column = 0; column < ld; ++column) {
          const i64 i = at(row, column);
          const double a = load_element(type, got.data(), i), b = load_element(type, wanted.data(), i);
          const bool same = std::memcmp(got.data() + 2 * i, wanted.data() + 2 * i, 2) == 0;
          wrong += same || (column < columns && std::isnan(a) && std::isnan(b)) ? 0 : 1;
        }
      EXPECT_EQ(wrong, 0) << name_of(type) << " " << rows << "x" << columns << " ld " << ld << " shift "
                          << shift;
    }
}

INSTANTIATE_TEST_SUITE_P(all, quantize, ::testing::ValuesIn(kGranularities),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace sluice::testing
