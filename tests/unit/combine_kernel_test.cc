// SPDX-License-Identifier: Apache-2.0
// The kernel that adds up the rows of a token's experts, on simulated threads, must equal the reference in
// every bit. Covers types, vectors and elements, pitches, weights and `shared` given or not, and rows that
// are missing, outside or repeated. Rows and weights that must not be read are NaN. To see it fail: let a
// missing row add its zeros (-0 turns to 0), or add `shared` last.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <sluice/reference/element.h>
#include <sluice/reference/experts.h>

#include "simulated_grid.h"
//
#include <sluice/kernels/combine.cuh>

namespace sluice {
namespace {

struct HostArith {
  struct Words {
    u32 words[4];
  };

  static Words load_words(const void* address, bool inside) {
    Words chunk{};
    if (!inside) return chunk;
    EXPECT_EQ(reinterpret_cast<u64>(address) % 16, 0u);
    std::memcpy(chunk.words, address, 16);
    return chunk;
  }
  static u16 load_bits(const u16* address) { return *address; }
  static i32 load_row(const i32* address, bool inside) { return inside ? *address : -1; }
  static float load_weight(const float* address, bool inside) { return inside ? *address : 1.0f; }
  template <DType kType>
  static u32 pack_16bit(float low, float high) {
    return encode_code(kType, low) | static_cast<u32>(encode_code(kType, high)) << 16;
  }
  template <DType kType>
  static void unpack_16bit(u32 packed, float& low, float& high) {
    low = static_cast<float>(load_element(kType, &packed, 0));
    high = static_cast<float>(load_element(kType, &packed, 1));
  }
  static void store(u8* target, const u32 (&words)[4]) {
    EXPECT_EQ(reinterpret_cast<u64>(target) % 16, 0u);
    std::memcpy(target, words, 16);
  }
  static float multiply_add(float a, float b, float c) { return std::fma(a, b, c); }
  static void warm(const WarmRange& range, u32, u32) { EXPECT_EQ(range.bytes, 0); }
};

struct Case {
  i64 tokens = 1, columns = 8, chosen = 1, rows = 1, y_pad = 0, shared_pad = 0, out_pad = 0;
  bool weights = true, shared = true, in_place = false;
  i64 experts = 0;  // as in CombineShape; y then has a row per slot
};

/// A matrix of 16-bit elements at an address of 16 bytes; what lies behind a row's columns is NaN.
template <DType kType>
class Matrix16 {
 public:
  Matrix16(std::mt19937& random, i64 rows, i64 columns, i64 ld)
      : words_(static_cast<std::size_t>(rows * ld + 16)) {
    for (i64 row = 0; row < rows; ++row)
      for (i64 column = 0; column < ld; ++column) {
        const double value = (static_cast<double>(random()) / 4294967296.0 - 0.5) * 8;
        store_element(kType, data(), row * ld + column,
                      column >= columns   ? std::nan("")
                      : random() % 9 == 0 ? -0.0
                                          : value);
      }
  }
  u16* data() { return words_.data() + (16 - reinterpret_cast<u64>(words_.data()) % 16) % 16 / 2; }

 private:
  std::vector<u16> words_;
};

template <DType kType, bool kVectors>
void expect_like_reference(const Case& c, unsigned blocks) {
  std::mt19937 random(static_cast<unsigned>(c.tokens * 31 + c.columns + c.chosen));
  const i64 y_ld = c.columns + c.y_pad, out_ld = c.columns + c.out_pad;
  const i64 shared_ld = c.in_place ? out_ld : c.columns + c.shared_pad;
  Matrix16<kType> y(random, c.rows, c.columns, y_ld), shared(random, c.tokens, c.columns, shared_ld);
  Matrix16<kType> out(random, c.tokens, c.columns, out_ld), wanted = out;
  if (c.in_place) shared = out;
  std::vector<int> row_of_slot;
  std::vector<float> weights;
  for (i64 slot = 0; slot < c.tokens * c.chosen; ++slot) {
    const i64 numbers = c.experts != 0 ? c.experts : c.rows;
    const int none[] = {-1, static_cast<int>(numbers), std::numeric_limits<int>::min(),
                        std::numeric_limits<int>::max()};
    const bool missing = c.rows == 0 || random() % 4 == 0;
    row_of_slot.push_back(missing ? none[random() % 4]
                                  : static_cast<int>(random() % static_cast<u64>(numbers)));
    weights.push_back(missing ? std::numeric_limits<float>::quiet_NaN()
                              : static_cast<float>(random()) / 4294967296.0f);
  }
  const float* const factors = c.weights ? weights.data() : nullptr;
  reference_combine({kType, y.data(), row_of_slot.data(), factors, c.shared ? shared.data() : nullptr,
                     c.tokens, c.columns, c.chosen, c.rows, y_ld, shared_ld, c.experts},
                    wanted.data(), out_ld);
  const CombineParams params{.y = y.data(),
                             .row_of_slot = row_of_slot.data(),
                             .weights = factors,
                             .shared = !c.shared    ? nullptr
                                       : c.in_place ? out.data()
                                                    : shared.data(),
                             .out = out.data(),
                             .tokens = c.tokens,
                             .columns = c.columns,
                             .rows = c.rows,
                             .y_ld = y_ld,
                             .shared_ld = shared_ld,
                             .out_ld = out_ld,
                             .chosen = static_cast<i32>(c.chosen),
                             .experts = static_cast<i32>(c.experts),
                             .hand_off = {}};
  simulated_grid::launch(
      blocks,
      [&] {
        combine::run<CombineConfig{kType, kVectors}, HostArith>(params);
      },
      kCombineThreads);
  EXPECT_EQ(std::memcmp(out.data(), wanted.data(), static_cast<std::size_t>(c.tokens * out_ld) * 2), 0)
      << name_of(kType) << " " << c.tokens << "x" << c.columns << " of " << c.chosen
      << (kVectors ? " vectors" : "");
}

template <DType kType>
void expect_both_ways(const Case& c) {
  for (const unsigned blocks : {1u, 3u}) {
    expect_like_reference<kType, true>(c, blocks);
    expect_like_reference<kType, false>(c, blocks);
  }
}

TEST(combine_kernel, gives_the_bits_of_the_reference) {
  for (const i64 chosen : {1, 2, 7, 8, 9, 32})
    for (const bool weights : {true, false})
      for (const bool shared : {true, false}) {
        const Case c{.tokens = 5,
                     .columns = 264,
                     .chosen = chosen,
                     .rows = 23,
                     .y_pad = 8,
                     .shared_pad = 16,
                     .out_pad = 24,
                     .weights = weights,
                     .shared = shared};
        expect_both_ways<DType::bf16>(c);
        expect_both_ways<DType::fp16>(c);
      }
}

TEST(combine_kernel, of_odd_columns_and_no_rows) {
  expect_like_reference<DType::bf16, false>(
      {.tokens = 3, .columns = 131, .chosen = 4, .rows = 9, .y_pad = 3, .shared_pad = 1, .out_pad = 2}, 2);
  expect_like_reference<DType::fp16, false>({.tokens = 2, .columns = 1, .chosen = 3, .rows = 4}, 1);
  expect_both_ways<DType::bf16>({.tokens = 3, .columns = 16, .chosen = 4, .rows = 0});
  expect_both_ways<DType::bf16>({.tokens = 40, .columns = 16, .chosen = 8, .rows = 300, .shared = false});
}

/// To see it fail, take the expert for the row.
TEST(combine_kernel, finds_the_rows_of_slots) {
  for (const i64 experts : {1, 3, 200})
    expect_both_ways<DType::bf16>(
        {.tokens = 6, .columns = 72, .chosen = 9, .rows = 54, .y_pad = 8, .experts = experts});
  expect_both_ways<DType::fp16>({.tokens = 2, .columns = 16, .chosen = 4, .rows = 5, .experts = 7});
}

TEST(combine_kernel, adds_to_shared_in_its_place) {
  expect_both_ways<DType::bf16>(
      {.tokens = 6, .columns = 64, .chosen = 8, .rows = 50, .out_pad = 8, .in_place = true});
}

}  // namespace
}  // namespace sluice
