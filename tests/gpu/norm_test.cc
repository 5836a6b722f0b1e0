// SPDX-License-Identifier: Apache-2.0
// Norms on the GPU, compared with the reference in double within the stated bound. Cases: random shapes,
// every store, with and without residual, a separate sum or in place, with poison around all operands. A
// row's bits must depend only on the row, however many threads and CTAs share it.
#include <sluice/norm.h>

#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include <sluice/kernels/verify_arith.h>
#include <sluice/quantize.h>
#include <sluice/reference/element.h>
#include <sluice/reference/norm.h>
#include <sluice/run/driver/memory.h>

#include "gpu.h"
#include "lab/random/dice.h"

namespace sluice::testing {
namespace {

constexpr u8 kPoison = 0xff;
enum class SumAt { nowhere, apart, input, residual };

struct Case {
  DType type = DType::bf16;
  std::optional<Granularity> quantize;
  i64 rows = 1, columns = 1, pad = 0;
  int shift = 0;  // elements by which the start of every matrix is off alignment
  bool residual = false, specials = false;
  SumAt sum = SumAt::nowhere;
  double magnitude = 4.0;
};

std::string describe(const Case& c) {
  return std::string(name_of(c.type)) + " " + (c.quantize ? name_of(*c.quantize) : "plain") + " " +
         std::to_string(c.rows) + "x" + std::to_string(c.columns) + " pad " + std::to_string(c.pad) +
         " shift " + std::to_string(c.shift) + (c.residual ? " residual" : "") + " sum " +
         std::to_string(static_cast<int>(c.sum));
}

NormStore store_of(const std::optional<Granularity>& quantize) {
  if (!quantize) return NormStore::plain;
  if (*quantize == Granularity::tensor) return NormStore::tensor;
  return *quantize == Granularity::row ? NormStore::row : NormStore::row_block;
}

/// A matrix on host and device, with poison beyond its size.
struct Operand {
  std::vector<u8> host;
  DeviceBuffer buffer;
  void* data = nullptr;  // device address of the first element, after the shift
};

class norms : public GpuTest {
 protected:
  Operand made(i64 bytes, i64 shift_bytes) {
    Operand result;
    result.host.assign(static_cast<std::size_t>(bytes + shift_bytes + 64), kPoison);
    auto buffer = DeviceBuffer::allocate(device(), static_cast<i64>(result.host.size()));
    EXPECT_TRUE(ok(buffer));
    result.buffer = *std::move(buffer);
    result.data = static_cast<u8*>(result.buffer.data()) + shift_bytes;
    return result;
  }
  void upload(const Operand& x) { ASSERT_TRUE(ok(x.buffer.upload(x.host.data(), x.buffer.bytes()))); }
  std::vector<u8> download(const Operand& x) {
    std::vector<u8> bytes(x.host.size());
    EXPECT_TRUE(ok(x.buffer.download(bytes.data(), x.buffer.bytes())));
    return bytes;
  }

  void fill(Operand& x, const Case& c, i64 rows, i64 ld, i64 shift_bytes, u64 seed) {
    for (i64 row = 0; row < rows; ++row)
      for (i64 column = 0; column < c.columns; ++column) {
        const u64 h = verify::hash(seed, static_cast<u64>(row * ld + column));
        double value = (static_cast<double>(h >> 11) * 0x1p-53 - 0.5) * c.magnitude;
        if (c.specials && rows > 1 && row % 3 == 1 && h % 211 == 0)
          value = h % 2 != 0 ? std::nan("") : INFINITY;
        store_element(c.type, x.host.data() + shift_bytes, row * ld + column, value);
      }
  }

  /// Counts bytes outside the matrix that have changed. `x` holds the original bytes.
  i64 touched(const Operand& x, const std::vector<u8>& got, i64 begin, i64 rows, i64 row_bytes, i64 pitch) {
    std::vector<bool> inside(got.size(), false);
    for (i64 row = 0; row < rows; ++row)
      for (i64 i = 0; i < row_bytes; ++i) inside[static_cast<std::size_t>(begin + row * pitch + i)] = true;
    i64 count = 0;
    for (std::size_t i = 0; i < got.size(); ++i) count += !inside[i] && got[i] != x.host[i] ? 1 : 0;
    return count;
  }

  void expect_like_reference(const Case& c, u64 seed) {
    const i64 ld = c.columns + c.pad, in = bytes_of(c.type), shift = c.shift * in;
    const NormStore store = store_of(c.quantize);
    const i64 out = store == NormStore::plain ? in : 1, out_shift = c.shift * out;
    const i64 scale_total = store == NormStore::row ? c.rows : c.rows * scale_blocks(c.columns);
    Operand input = made(c.rows * ld * in, shift), residual = made(c.rows * ld * in, shift),
            gamma = made(c.columns * in, shift), sum = made(c.rows * ld * in, shift),
            output = made(c.rows * ld * out, out_shift), scales = made(scale_total * 4, 0);
    fill(input, c, c.rows, ld, shift, seed);
    fill(residual, c, c.rows, ld, shift, seed + 1);
    fill(gamma, {.type = c.type, .columns = c.columns, .magnitude = 3.0}, 1, c.columns, shift, seed + 2);
    const float given = 0.0123f;
    std::memcpy(scales.host.data(), &given, 4);
    for (const Operand* x : {&input, &residual, &gamma, &sum, &output, &scales}) upload(*x);

    const NormInput reference{.type = c.type,
                              .data = input.host.data() + shift,
                              .residual = c.residual ? residual.host.data() + shift : nullptr,
                              .gamma = gamma.host.data() + shift,
                              .rows = c.rows,
                              .columns = c.columns,
                              .ld = ld,
                              .residual_ld = ld,
                              .epsilon = 1e-5};
    std::vector<u16> wanted_sum(static_cast<std::size_t>(c.rows * c.columns));
    std::vector<double> normed(wanted_sum.size());
    reference_norm(reference, wanted_sum.data(), normed.data());

    const Operand* sum_at = c.sum == SumAt::apart      ? &sum
                            : c.sum == SumAt::input    ? &input
                            : c.sum == SumAt::residual ? &residual
                                                       : nullptr;
    const auto norm = Norm::create(device(), {.input = c.type, .quantize = c.quantize});
    ASSERT_TRUE(ok(norm));
    const NormArgs args{.input = input.data,
                        .residual = c.residual ? residual.data : nullptr,
                        .sum = sum_at != nullptr ? sum_at->data : nullptr,
                        .gamma = gamma.data,
                        .output = output.data,
                        .scales = store == NormStore::plain ? nullptr : static_cast<float*>(scales.data)};
    ASSERT_TRUE(ok(norm->launch({c.rows, c.columns, ld, ld, ld, ld}, args, nullptr))) << describe(c);
    ASSERT_TRUE(ok(synchronize(device()))) << describe(c);

    const std::vector<u8> got = download(output), got_scales = download(scales);
    std::vector<float> factors(static_cast<std::size_t>(scale_total));
    std::memcpy(factors.data(), got_scales.data(), factors.size() * 4);
    const NormFindings found =
        check_norm(reference, normed.data(),
                   {.store = store, .data = got.data() + out_shift, .ld = ld, .scales = factors.data()});
    EXPECT_EQ(found.wrong, 0) << describe(c) << ": " << found.first;
    EXPECT_LE(found.neighbours, 1 + c.rows * c.columns / 128)
        << describe(c) << ": ties, where products of 16 bits meet one";
    EXPECT_EQ(touched(output, got, out_shift, c.rows, c.columns * out, ld * out), 0) << describe(c);
    const i64 written = store == NormStore::plain ? 0 : store == NormStore::tensor ? 0 : scale_total * 4;
    EXPECT_EQ(touched(scales, got_scales, 0, 1, written, 0), 0) << describe(c) << ": scales";
    for (const Operand* x : {&input, &residual, &sum}) {
      const std::vector<u8> now = download(*x);
      EXPECT_EQ(touched(*x, now, shift, x == sum_at ? c.rows : 0, c.columns * in, ld * in), 0) << describe(c);
      if (x != sum_at) continue;
      i64 wrong = 0;
      for (i64 row = 0; row < c.rows; ++row)
        for (i64 column = 0; column < c.columns; ++column) {
          const double a = load_element(c.type, now.data() + shift, row * ld + column);
          const double b = load_element(c.type, wanted_sum.data(), row * c.columns + column);
          wrong += a != b && !(std::isnan(a) && std::isnan(b)) ? 1 : 0;
        }
      EXPECT_EQ(wrong, 0) << describe(c) << ": sums";
    }
  }
};

constexpr std::optional<Granularity> kStores[] = {std::nullopt, Granularity::tensor, Granularity::row,
                                                  Granularity::row_block};

TEST_F(norms, are_within_the_bound_of_the_reference) {
  u64 seed = 1;
  for (const auto& quantize : kStores)
    for (const auto& [rows, columns] : {std::pair<i64, i64>{1, 4096},
                                        {4, 8192},
                                        {1, 16384},
                                        {16, 12288},
                                        {64, 5120},
                                        {3, 40000},
                                        {200, 4096},
                                        {150, 17000},
                                        {1, 1},
                                        {2, 262144}})
      for (const SumAt sum : {SumAt::nowhere, SumAt::residual})
        expect_like_reference(
            {.quantize = quantize, .rows = rows, .columns = columns, .residual = true, .sum = sum}, ++seed);
}

Case random_norm(i64 number) {
  Dice dice(verify::hash(5, static_cast<u64>(number)));
  Case c;
  c.type = dice.one_in(3) ? DType::fp16 : DType::bf16;
  c.quantize = kStores[dice.below(4)];
  c.rows = dice.one_in(3) ? dice.between(1, 6) : dice.between(1, 150);
  c.columns = dice.one_in(2) ? dice.between(1, 3000) : 8 * dice.between(1, c.rows < 7 ? 3000 : 400);
  c.pad = dice.one_in(2) ? 0 : dice.one_in(2) ? 8 * dice.between(1, 5) : dice.between(1, 9);
  c.shift = dice.one_in(3) ? (dice.one_in(2) ? 8 : dice.between(1, 9)) : 0;
  c.residual = dice.one_in(2);
  c.specials = dice.one_in(4);
  c.sum = static_cast<SumAt>(dice.below(c.residual ? 4 : 3));
  c.magnitude = dice.one_in(5) ? 1e-4 : dice.one_in(4) ? 200.0 : 4.0;
  return c;
}

// SLUICE_NORM_CASES: number of cases. SLUICE_NORM_FIRST: number of the first one.
TEST_F(norms, of_random_shapes) {
  const i64 count = setting("SLUICE_NORM_CASES", 300), first = setting("SLUICE_NORM_FIRST", 0);
  for (i64 i = first; i < first + count; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    expect_like_reference(random_norm(i), verify::hash(6, static_cast<u64>(i)));
    if (HasFailure()) return;
  }
}

// Covers the cases of NORMS in tools/gpu_sanitize.py.
TEST(pool, covers_every_norm_in_what_sanitizers_run) {
  std::set<std::string> seen;
  for (i64 i = 0; i < 64; ++i) {
    const Case c = random_norm(i);
    const bool vectors = c.columns % 8 == 0 && c.pad % 8 == 0 && c.shift % 8 == 0, wide = c.columns > 8192;
    seen.insert(std::string(name_of(c.type)) + (c.quantize ? name_of(*c.quantize) : "plain") +
                (vectors ? " vectors" : ""));
    if (wide) seen.insert("a team of CTAs");
    if (c.residual) seen.insert("sum " + std::to_string(static_cast<int>(c.sum)));
  }
  EXPECT_EQ(seen.size(), 2u * 4 * 2 + 1 + 4);
}

TEST_F(norms, the_bits_of_a_row_depend_on_nothing_but_the_row) {
  for (const auto& quantize : kStores)
    for (const i64 columns : {1000, 4096, 8192, 16384, 40000}) {
      constexpr i64 kRows = 200;
      const Case c{.quantize = quantize, .rows = kRows, .columns = columns};
      Operand input = made(kRows * columns * 2, 0), gamma = made(columns * 2, 0),
              output = made(kRows * columns * 2, 0), scales = made(kRows * scale_blocks(columns) * 4, 0);
      fill(input, c, kRows, columns, 0, 77);
      fill(gamma, c, 1, columns, 0, 78);
      const float given = 0.0123f;
      std::memcpy(scales.host.data(), &given, 4);
      for (const Operand* x : {&input, &gamma, &scales}) upload(*x);
      const auto norm = Norm::create(device(), {.quantize = quantize});
      ASSERT_TRUE(ok(norm));
      const i64 out = quantize ? 1 : 2;
      const auto run = [&](i64 rows) {
        EXPECT_TRUE(ok(output.buffer.fill(kPoison, nullptr)));
        const NormArgs args{.input = input.data,
                            .gamma = gamma.data,
                            .output = output.data,
                            .scales = static_cast<float*>(scales.data)};
        EXPECT_TRUE(ok(norm->launch({.rows = rows, .columns = columns}, args, nullptr)));
        EXPECT_TRUE(ok(synchronize(device())));
        std::vector<u8> bytes = download(output);
        bytes.resize(static_cast<std::size_t>(columns * out));  // keeps only the first row
        return bytes;
      };
      const std::vector<u8> many = run(kRows);
      for (const i64 rows : {1, 5, 20, 40, 100})
        EXPECT_EQ(run(rows), many) << columns << " columns, " << rows;
    }
}

}  // namespace
}  // namespace sluice::testing
