// SPDX-License-Identifier: Apache-2.0
// The norm kernels on simulated threads over host memory, compared with the reference. Covers every store,
// with and without vectors, residual and sum, partial rows, pitches, NaN and infinities, and rows that exceed
// the threads' registers. The units also compile. To see it fail: leave the first of 32 segments out of the
// sum, let sum_again read the overwritten input, or leave out a scale's multiplier.
#include <sluice/kernels/verify_arith.h>
#include <sluice/plan/text/norm_units.h>
#include <sluice/reference/element.h>
#include <sluice/reference/norm.h>
#include <sluice/run/jit/compiler.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "simulated_grid.h"
//
#include <sluice/kernels/norm.cuh>

namespace sluice {
namespace {

/// The only CTA of a simulated row. tests/gpu runs rows on several CTAs.
template <u32 kSlots>
struct HostTeam {
  struct Shared {
    u32 slots[2][kSlots];
  };
  u32 ctas = 1, rank = 0, index = blockIdx.x, teams = gridDim.x;
  explicit HostTeam(Shared& memory) : shared(memory) {}
  void begin() const {}
  void put(u32 slot, u32 value) {
    EXPECT_LT(slot, kSlots);
    if (threadIdx.x % 32 == 0) shared.slots[turn % 2][slot] = value;
  }
  const u32* meet(u32 words) {
    EXPECT_LE(words, kSlots);
    __syncthreads();
    return shared.slots[turn++ % 2];
  }
  Shared& shared;
  u32 turn = 0;
};

struct HostArith {
  template <u32 kSlots>
  using Team = HostTeam<kSlots>;

  static norm::Words load_words(const void* address, bool inside) {
    EXPECT_TRUE(!inside || reinterpret_cast<u64>(address) % 16 == 0);
    norm::Words words{};
    if (inside) std::memcpy(&words, address, sizeof words);
    return words;
  }
  static norm::Words load_constant_words(const void* address, bool inside) {
    return load_words(address, inside);
  }
  static void keep(norm::Words&) {}
  static u16 load_bits(const u16* address) { return *address; }
  static float load_float(const float* address) { return *address; }
  template <DType kType>
  static u32 pack_16bit(float low, float high) {
    u32 packed = 0;
    store_element(kType, &packed, 0, low);
    store_element(kType, &packed, 1, high);
    return packed;
  }
  template <DType kType>
  static void unpack_16bit(u32 packed, float& low, float& high) {
    low = static_cast<float>(load_element(kType, &packed, 0));
    high = static_cast<float>(load_element(kType, &packed, 1));
  }
  static u32 pack(float low, float high) {
    return encode_code(DType::e4m3, low) | encode_code(DType::e4m3, high) << 8;
  }
  template <int kWords>
  static void store(u8* target, const u32 (&words)[kWords]) {
    EXPECT_EQ(reinterpret_cast<u64>(target) % (4 * kWords), 0u);
    std::memcpy(target, words, sizeof words);
  }
  static float multiply_add(float a, float b, float c) { return std::fmaf(a, b, c); }
  static float inverse_root(float x) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x))); }
  template <int kValues>
  static void sum_of_warp(float (&values)[kValues]) {
    for (float& value : values)
      for (int distance = 16; distance > 0; distance /= 2)
        value += static_cast<float>(__shfl_xor_sync(~0u, value, distance));
  }
  static u32 largest_of_warp(u32 bits) {
    for (int distance = 16; distance > 0; distance /= 2)
      bits = std::max(bits, static_cast<u32>(__shfl_xor_sync(~0u, bits, distance)));
    return bits;
  }
  static void warm(const WarmRange& range, u32, u32) { EXPECT_EQ(range.bytes, 0); }
};

enum class SumAt { nowhere, apart, input, residual };

struct Case {
  i64 rows = 1, columns = 1, pad = 0;
  bool residual = false;
  SumAt sum = SumAt::nowhere;
  double magnitude = 4.0;
  bool specials = false;
};

/// An array of 16-bit elements, aligned to 16 bytes.
class Buffer {
 public:
  explicit Buffer(i64 elements) : words_(static_cast<std::size_t>(elements / 4 + 4), 0x7fff7fff7fff7fffu) {}
  u16* data() {
    return reinterpret_cast<u16*>(words_.data() + (reinterpret_cast<u64>(words_.data()) % 16 != 0));
  }

 private:
  std::vector<u64> words_;
};

void fill(DType type, u16* data, const Case& c, u64 seed) {
  for (i64 row = 0; row < c.rows; ++row)
    for (i64 column = 0; column < c.columns; ++column) {
      const i64 index = row * (c.columns + c.pad) + column;
      const u64 h = verify::hash(seed, static_cast<u64>(index));
      double value = (static_cast<double>(h >> 11) * 0x1p-53 - 0.5) * c.magnitude;
      if (c.specials && row % 3 == 1 && h % 97 == 0) value = h % 2 != 0 ? std::nan("") : INFINITY;
      store_element(type, data, index, value);
    }
}

template <DType kType, NormStore kStore, bool kVectors>
void expect_like_reference(const Case& c, unsigned blocks) {
  const i64 ld = c.columns + c.pad, elements = c.rows * ld;
  Buffer input(elements), residual(elements), gamma(c.columns), sum(elements), output(elements);
  const u64 seed = static_cast<u64>(c.rows * 1000 + c.columns);
  fill(kType, input.data(), c, seed);
  fill(kType, residual.data(), c, seed + 1);
  fill(kType, gamma.data(), {.columns = c.columns, .magnitude = 3.0}, seed + 2);
  const NormInput reference{.type = kType,
                            .data = input.data(),
                            .residual = c.residual ? residual.data() : nullptr,
                            .gamma = gamma.data(),
                            .rows = c.rows,
                            .columns = c.columns,
                            .ld = ld,
                            .residual_ld = ld,
                            .epsilon = 1e-5};
  std::vector<u16> wanted_sum(static_cast<std::size_t>(c.rows * c.columns));
  std::vector<double> normed(wanted_sum.size());
  reference_norm(reference, wanted_sum.data(), normed.data());
  std::vector<float> scales(static_cast<std::size_t>(c.rows * ((c.columns + 127) / 128)), 0.125f);
  u16* sum_at = c.sum == SumAt::apart      ? sum.data()
                : c.sum == SumAt::input    ? input.data()
                : c.sum == SumAt::residual ? residual.data()
                                           : nullptr;
  const NormParams params{.input = input.data(),
                          .residual = reference.residual,
                          .sum = sum_at,
                          .gamma = gamma.data(),
                          .output = output.data(),
                          .scales = scales.data(),
                          .rows = c.rows,
                          .columns = c.columns,
                          .input_ld = ld,
                          .residual_ld = ld,
                          .sum_ld = ld,
                          .output_ld = ld,
                          .epsilon = 1e-5f,
                          .inverse_columns = 1.0f / static_cast<float>(c.columns),
                          .working_threads = simulated_grid::kThreads,
                          .hand_off = {}};
  constexpr NormConfig kConfig{.input = kType, .vectors = kVectors, .store = kStore};
  simulated_grid::launch(blocks, [&] { norm::run<kConfig, HostArith>(params); });
  const std::string where = std::string(name_of(kStore)) + " " + name_of(kType) + " " +
                            std::to_string(c.rows) + "x" + std::to_string(c.columns) +
                            (kVectors ? " vectors" : " elements");
  const NormFindings found = check_norm(
      reference, normed.data(), {.store = kStore, .data = output.data(), .ld = ld, .scales = scales.data()});
  EXPECT_EQ(found.wrong, 0) << where << ": " << found.first;
  EXPECT_LE(found.neighbours, 1 + c.rows * c.columns / 128)
      << where << ": ties, where products of 16 bits meet one";
  i64 touched = 0, wrong_sums = 0;
  for (i64 row = 0; row < c.rows; ++row)
    for (i64 column = 0; column < ld; ++column) {
      const std::size_t at = static_cast<std::size_t>(row * c.columns + column);
      const bool inside = column < c.columns;
      if (sum_at != nullptr) {
        const double got = load_element(kType, sum_at, row * ld + column);
        const double wanted = inside ? load_element(kType, &wanted_sum[at], 0) : 0;
        wrong_sums += inside && got != wanted && !(std::isnan(got) && std::isnan(wanted));
        touched += !inside && sum_at[row * ld + column] != 0x7fff;
      }
      if (!inside && kStore == NormStore::plain) touched += output.data()[row * ld + column] != 0x7fff;
      if (!inside && kStore != NormStore::plain)
        touched += reinterpret_cast<u8*>(output.data())[row * ld + column] !=
                   (((row * ld + column) % 2) ? 0x7f : 0xff);
    }
  EXPECT_EQ(wrong_sums, 0) << where;
  EXPECT_EQ(touched, 0) << where << ": padding was written";
}

template <DType kType, NormStore kStore>
void expect_both(const Case& c, unsigned blocks) {
  expect_like_reference<kType, kStore, true>(c, blocks);
  expect_like_reference<kType, kStore, false>(c, blocks);
}
template <NormStore kStore>
void expect_all(const Case& c, unsigned blocks) {
  expect_both<DType::bf16, kStore>(c, blocks);
  expect_both<DType::fp16, kStore>(c, blocks);
}

template <class Store>
class norm_kernels : public ::testing::Test {};
template <NormStore kStore>
struct Stored {
  static constexpr NormStore kValue = kStore;
};
using Stores = ::testing::Types<Stored<NormStore::plain>, Stored<NormStore::tensor>, Stored<NormStore::row>,
                                Stored<NormStore::row_block>>;
struct StoreNames {
  template <class Store>
  static std::string GetName(int) {
    return name_of(Store::kValue);
  }
};
TYPED_TEST_SUITE(norm_kernels, Stores, StoreNames);

TYPED_TEST(norm_kernels, are_within_the_bound_of_the_reference) {
  expect_all<TypeParam::kValue>({.rows = 5, .columns = 256}, 2);
  expect_all<TypeParam::kValue>({.rows = 3, .columns = 2056, .pad = 8, .residual = true}, 1);
  expect_all<TypeParam::kValue>({.rows = 4, .columns = 136, .pad = 24, .residual = true, .sum = SumAt::apart},
                                3);
}

TYPED_TEST(norm_kernels, of_ragged_rows) {
  expect_like_reference<DType::bf16, TypeParam::kValue, false>({.rows = 1, .columns = 1}, 1);
  expect_like_reference<DType::fp16, TypeParam::kValue, false>(
      {.rows = 3, .columns = 1027, .pad = 3, .residual = true, .sum = SumAt::apart}, 2);
}

TYPED_TEST(norm_kernels, of_rows_longer_than_threads_hold_with_the_sum_in_place) {
  for (const SumAt sum : {SumAt::nowhere, SumAt::input, SumAt::residual})
    expect_both<DType::bf16, TypeParam::kValue>({.rows = 2, .columns = 8968, .residual = true, .sum = sum},
                                                1);
}

TYPED_TEST(norm_kernels, of_nan_infinity_and_small_values) {
  expect_all<TypeParam::kValue>({.rows = 7, .columns = 640, .specials = true}, 2);
  expect_all<TypeParam::kValue>({.rows = 3, .columns = 264, .magnitude = 1e-5}, 1);
}

TEST(norm_layout, gives_each_row_threads_enough_and_few_rows_a_team) {
  for (const int most : {kMaxNormThreads, kMaxElementNormThreads})
    for (i64 rows : {0, 1, 4, 16, 17, 33, 64, 66, 67, 132, 133, 4096})
      for (i64 columns = 1; columns <= kMaxNormColumns; columns = columns * 5 / 4 + 3) {
        const NormLayout layout = norm_layout(rows, columns, most, 132);
        EXPECT_EQ(layout.threads % 32, 0u);
        EXPECT_GE(layout.threads, 32u);
        EXPECT_LE(layout.threads, static_cast<u32>(most));
        EXPECT_LE(layout.team, kMaxRowTeam);
        const i64 chunks = (columns + 7) / 8;
        EXPECT_TRUE(layout.team == 1 || kNormCtaChunks * i64{layout.team} / 2 < chunks)
            << rows << " " << columns;
        EXPECT_TRUE(layout.threads == static_cast<u32>(most) ||
                    i64{layout.team} * layout.threads * kNormHeld >= chunks)
            << rows << " " << columns << ": a thread holds a row's part";
        EXPECT_TRUE(layout.team == 1 || layout.team * rows <= 66) << rows << " " << columns;
      }
}

TEST(norm_units, compile_for_hopper_without_spills_or_warnings) {
  const auto compiler = Compiler::load("");
  ASSERT_TRUE(compiler) << compiler.error().message;
  for (const NormStore store : {NormStore::plain, NormStore::tensor, NormStore::row, NormStore::row_block})
    for (const DType input : {DType::bf16, DType::fp16})
      for (const Overlap overlap :
           {Overlap{}, Overlap{Wait::first, Trigger::at_start}, Overlap{Wait::first, Trigger::after_loads}})
        for (const std::string& unit : norm_units(input, store, overlap)) {
          EXPECT_EQ(unit.find(".overlap = ") == std::string::npos, overlap == Overlap{}) << unit;
          const auto cubin = (*compiler)->compile(unit);
          ASSERT_TRUE(cubin) << cubin.error().message;
          EXPECT_EQ(cubin->report.spill_bytes, 0) << unit << cubin->report.registers << " registers";
          EXPECT_EQ(cubin->report.stack_bytes, 0) << unit;
          EXPECT_EQ(cubin->report.log, "") << unit;
        }
}

}  // namespace
}  // namespace sluice
