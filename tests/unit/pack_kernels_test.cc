// SPDX-License-Identifier: Apache-2.0
// The packing kernels on simulated threads over host memory. Blobs must equal the reference's byte for byte;
// unpacking must restore the arrays and write nothing else. Covers one and two codes per byte, loads of 16
// bytes and single ones, any n and k, every group, scale type and order. The units also compile. To see it
// fail: leave out `byte < at.bytes` in for_pieces, use a kPitch of kRowBytes - 16, or do not mask an odd
// row's last half byte.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include <sluice/plan/text/pack_units.h>
#include <sluice/run/jit/compiler.h>

#include "packed_formats.h"
#include "simulated_grid.h"
//
#include <sluice/kernels/pack.cuh>

namespace sluice {
namespace {

using test::RandomWeights;

struct HostMemory {
  static uint4 load(const u8* address) {
    EXPECT_EQ(reinterpret_cast<u64>(address) % 16, 0u);
    uint4 words;
    std::memcpy(&words, address, 16);
    return words;
  }
  static void store(u8* address, uint4 words) {
    EXPECT_EQ(reinterpret_cast<u64>(address) % 16, 0u);
    std::memcpy(address, &words, 16);
  }
};

/// An array aligned to 16 bytes, with a guard after it.
class Buffer {
 public:
  explicit Buffer(const std::vector<u8>& bytes, i64 shift = 0)
      : bytes_(bytes.size()), first_(static_cast<std::size_t>(shift)), words_(bytes.size() / 16 + 4) {
    std::memset(words_.data(), 0xcd, 16 * words_.size());
    if (!bytes.empty()) std::memcpy(data(), bytes.data(), bytes.size());
  }
  u8* data() { return reinterpret_cast<u8*>(words_.data()) + first_; }
  std::vector<u8> bytes() { return {data(), data() + bytes_}; }
  bool guard_is_whole() { return data()[bytes_] == 0xcd && data()[bytes_ + 15] == 0xcd; }

 private:
  struct alignas(16) Word {
    u8 bytes[16];
  };
  std::size_t bytes_, first_;
  std::vector<Word> words_;
};

/// Packs codes as CodeStorage::nibble. If a row has an odd length, `rest` is the upper half of its last byte.
std::vector<u8> in_nibbles(const std::vector<u8>& codes, i64 n, i64 k, u8 rest) {
  std::vector<u8> rows;
  for (i64 row = 0; row < n; ++row)
    for (i64 i = 0; i < k; i += 2) {
      const u8* at = codes.data() + row * k + i;
      rows.push_back(static_cast<u8>(at[0] | (i + 1 < k ? at[1] : rest) << 4));
    }
  return rows;
}

struct Case {
  i64 n, k;
  i64 shift = 0;  // bytes by which the address of the codes is off 16-byte alignment
};

template <PackConfig kConfig>
void simulate(Case c, PackParams params) {
  params.n = c.n;
  params.k = c.k;
  params.pieces = rows_are_pieces(kConfig.codes, c.k) && reinterpret_cast<u64>(params.codes) % 16 == 0;
  const auto tiles = static_cast<unsigned>(strip_count(c.n) * packed_k_tiles(c.k));
  simulated_grid::launch(tiles, [&] { pack::run<kConfig, HostMemory>(params); });
}

template <WeightFormat kFormat, CodeStorage kStorage>
void expect_like_reference(Case c) {
  const std::string where = test::text_of(kFormat) + " codes a " + name_of(kStorage) + " " +
                            std::to_string(c.n) + "x" + std::to_string(c.k);
  const RandomWeights weights(kFormat, c.n, c.k, static_cast<u64>(c.n * 1000 + c.k));
  const auto wanted = pack_weights(kFormat, weights.arrays());
  ASSERT_TRUE(wanted);
  const bool nibbles = kStorage == CodeStorage::nibble;
  Buffer codes(nibbles ? in_nibbles(weights.codes(), c.n, c.k, 0xf) : weights.codes(), c.shift);
  Buffer scales(weights.scales()), zeros(weights.zeros()), blob(std::vector<u8>(wanted->size(), 0xee));
  simulate<PackConfig{PackStep::pack, kFormat, kStorage}>(
      c, {.codes = codes.data(), .scales = scales.data(), .zeros = zeros.data(), .blob = blob.data()});
  EXPECT_TRUE(blob.bytes() == *wanted) << where;
  EXPECT_TRUE(blob.guard_is_whole()) << where;

  const std::vector<u8> rows = nibbles ? in_nibbles(weights.codes(), c.n, c.k, 0) : weights.codes();
  Buffer codes_again(std::vector<u8>(rows.size(), 0xee), c.shift);
  Buffer scales_again(std::vector<u8>(weights.scales().size(), 0xee));
  Buffer zeros_again(std::vector<u8>(weights.zeros().size(), 0xee));
  simulate<PackConfig{PackStep::unpack, kFormat, kStorage}>(c, {.codes = codes_again.data(),
                                                                .scales = scales_again.data(),
                                                                .zeros = zeros_again.data(),
                                                                .blob = blob.data()});
  EXPECT_TRUE(codes_again.bytes() == rows) << where;
  EXPECT_TRUE(scales_again.bytes() == weights.scales()) << where;
  EXPECT_TRUE(zeros_again.bytes() == weights.zeros()) << where;
  EXPECT_TRUE(codes_again.guard_is_whole() && scales_again.guard_is_whole() && zeros_again.guard_is_whole())
      << where;
}

constexpr Case kCases[] = {{65, 288}, {70, 129}, {3, 31}, {64, 128, 1}};

template <WeightFormat kFormat>
void expect_all_cases() {
  for (const Case& c : kCases) {
    expect_like_reference<kFormat, CodeStorage::byte>(c);
    if constexpr (code_bits(kFormat.type) == 4) expect_like_reference<kFormat, CodeStorage::nibble>(c);
  }
}

TEST(pack_kernels, blobs_of_16_bit_tokens_are_the_references) {
  expect_all_cases<WeightFormat{.group = 64}>();
  expect_all_cases<WeightFormat{.group = 32, .scale = DType::bf16, .zero = ScaleZero::per_group}>();
  expect_all_cases<WeightFormat{.group = 0, .scale = DType::fp32, .zero = ScaleZero::per_group}>();
}

TEST(pack_kernels, blobs_of_8_bit_tokens_are_the_references) {
  constexpr FragmentOrder kByte = FragmentOrder::byte;
  expect_all_cases<WeightFormat{.group = 128, .order = kByte}>();
  expect_all_cases<WeightFormat{
      .group = 32, .scale = DType::fp32, .zero = ScaleZero::per_group, .order = kByte}>();
  expect_all_cases<WeightFormat{.group = 0, .scale = DType::bf16, .order = kByte}>();
}

TEST(pack_kernels, blobs_of_8_bit_weights_are_the_references) {
  expect_all_cases<WeightFormat{.type = WeightType::int8, .group = 128, .scale = DType::fp32}>();
  expect_all_cases<WeightFormat{.type = WeightType::int8, .group = 0, .zero = ScaleZero::per_group}>();
  expect_all_cases<WeightFormat{.type = WeightType::e4m3, .group = 32, .scale = DType::bf16}>();
  expect_all_cases<kMxfp4>();
}

/// Compiles the smallest and the largest variant. Other formats differ from these in constants only.
TEST(pack_units, compile_for_hopper_without_spills_or_warnings) {
  const auto compiler = Compiler::load("");
  ASSERT_TRUE(compiler) << compiler.error().message;
  for (const WeightFormat& format : test::all_formats()) {
    const bool large =
        format.group == 32 && format.scale == DType::fp32 && format.zero == ScaleZero::per_group;
    const bool small = format.group == 0 && format.scale == DType::fp16 && format.zero == ScaleZero::none;
    if (!large && !small) continue;
    for (const CodeStorage storage : {CodeStorage::byte, CodeStorage::nibble})
      for (const PackStep step : {PackStep::pack, PackStep::unpack}) {
        if (storage == CodeStorage::nibble && code_bits(format.type) != 4) continue;
        const std::string unit = pack_unit_text({step, format, storage});
        const auto cubin = (*compiler)->compile(unit);
        ASSERT_TRUE(cubin) << cubin.error().message;
        EXPECT_EQ(cubin->report.spill_bytes, 0) << unit << cubin->report.registers << " registers";
        EXPECT_EQ(cubin->report.stack_bytes, 0) << unit;
        EXPECT_EQ(cubin->report.log, "") << unit;
        EXPECT_LE(cubin->report.registers, 40) << unit;
      }
  }
}

}  // namespace
}  // namespace sluice
