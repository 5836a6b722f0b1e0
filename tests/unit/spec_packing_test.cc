// SPDX-License-Identifier: Apache-2.0
// The packed format's arithmetic: bytes and offsets, a distinct place for every code of a tile, place_code
// and take_code inverse to each other, refused formats. Much is checked at compile time. To see it fail: use
// `reg & 1` for the k of lane_code.
#include <sluice/spec/packed_codes.h>
#include <sluice/spec/packed_slices.h>

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "packed_formats.h"

namespace sluice {
namespace {

constexpr WeightFormat kInt4{.group = 64};
constexpr WeightFormat kZeros{.group = 32, .scale = DType::fp32, .zero = ScaleZero::per_group};
constexpr WeightFormat kBytes{.group = 128, .order = FragmentOrder::byte};
constexpr WeightFormat kRows{.type = WeightType::int8, .group = 0, .scale = DType::bf16};

static_assert(tile_bytes(kMxfp4) == 4096 + 4 * 64 && stored_bits(kMxfp4, 64, 128) == 4.25);
static_assert(blob_bytes(kMxfp4, 5760, 2880) == 90 * 23 * 4352, "gpt-oss: 22.5 tiles of k");
static_assert(tile_code_bytes(kInt4) == 4096 && tile_code_bytes(kRows) == 8192);
static_assert(tile_bytes(kInt4) == 4096 + 2 * 64 * 2);
static_assert(tile_bytes(kZeros) == 4096 + 2 * 4 * 64 * 4 && tile_zeros_offset(kZeros) == 4096 + 1024);
static_assert(tile_bytes(kRows) == 8192 && row_scale_bytes(kRows) == 128 && row_zero_bytes(kRows) == 0);
static_assert(blob_bytes(kInt4, 3584, 8192) == 56 * 64 * 4352);
static_assert(blob_bytes(kInt4, 65, 129) == 2 * 2 * 4352, "ragged sizes are padded");
static_assert(blob_bytes(kRows, 65, 129) == 2 * (2 * 8192 + 128));
static_assert(blob_bytes(kRows, 0, 129) == 0 && blob_bytes(kRows, 65, 0) == 0);
static_assert(tile_offset(kRows, 129, 1, 1) == 2 * 8192 + 128 + 8192);
static_assert(row_scales_offset(kRows, 129, 1) == 2 * (2 * 8192 + 128) - 128);
static_assert(group_count(kInt4, 129) == 3 && group_count(kRows, 129) == 1 && group_count(kRows, 0) == 0);
static_assert(stored_bits(kInt4, 64, 128) == 4.25 && stored_bits(kBytes, 3584, 8192) == 4.125);
static_assert(blob_bytes(kRows, 2147483647, 2147483647) > 0, "no overflow at the largest sizes");

// Some places at the corners of a tile, computed by hand.
static_assert(code_place(kInt4, {0, 0}) == CodePlace{0, 0});
static_assert(code_place(kInt4, {8, 0}) == CodePlace{0, 2});
static_assert(code_place(kInt4, {0, 9}) == CodePlace{0, 5});
static_assert(code_place(kInt4, {1, 18}) == CodePlace{5 * 16 + 4, 0});
static_assert(code_place(kInt4, {63, 127}) == CodePlace{4096 - 4, 7});
static_assert(code_place(kMxfp4, {8, 9}) == CodePlace{0, 7} &&
              code_place(kMxfp4, {63, 127}) == CodePlace{4096 - 8, 15});
static_assert(code_place(kBytes, {0, 16}) == CodePlace{4, 0});
static_assert(code_place(kBytes, {8, 33}) == CodePlace{8, 5});
static_assert(code_place(kRows, {0, 8}) == CodePlace{4, 0});
static_assert(code_place(kRows, {8, 33}) == CodePlace{2048, 3});
static_assert(place_code(kInt4, 15, 0) == 0x00000078 && place_code(kInt4, 15, 7) == 0x80000007);
static_assert(place_code(kInt4, 15, 2) == 0x00000780 && place_code(kInt4, 15, 3) == 0x07800000);
static_assert(place_code(kRows, 255, 0) == 0x000007f8 && place_code(kRows, 255, 3) == 0xf8000007);
static_assert(place_code(kBytes, 0, 0) == 0x8e && place_code(kBytes, 7, 0) == 0x80);
static_assert(place_code(kBytes, 8, 0) == 0x00 && place_code(kBytes, 0, 5) == 0x7100);
static_assert(place_code(kMxfp4, 7, 0) == 0x000001c0 && place_code(kMxfp4, 8, 1) == 0x80000000);
static_assert(place_code(kMxfp4, 15, 2) == 0x00081c00 && place_code(kMxfp4, 15, 12) == 0x0207000000000000);
static_assert(place_code(kMxfp4, 15, 6) == 0x0000400000206000 &&
              place_code(kMxfp4, 15, 14) == 0x2030000000100000);
static_assert(doubled_e2m1(0) == 0 && doubled_e2m1(1) == 1 && doubled_e2m1(5) == 6 &&
              doubled_e2m1(15) == -12);
static_assert(scale_slot(0, 0) == 0 && scale_slot(8, 0) == 1 && scale_slot(1, 0) == 2);
static_assert(scale_slot(63, 1) == 127 && slot_row(127) == 63 && slot_row(65) == 8);

// Words of the example in docs/decisions/0019-packed-in-fragment-order.md.
template <int kCodes>
constexpr u64 word_of(const WeightFormat& f, const u32 (&codes)[kCodes]) {
  u64 word = 0;
  for (int field = 0; field < cell_codes(f); ++field) word |= place_code(f, codes[field], field);
  return word;
}
static_assert(word_of(kInt4, {1, 2, 5, 6, 3, 4, 7, 8}) == 0x23139a8c);
static_assert(word_of(kBytes, {0, 7, 8, 15, 1, 6, 9, 14}) == 0x6e1091ef);
static_assert(word_of(kRows, {0x81, 0x7f, 0x80, 0xff}) == 0xfbfc040f);
static_assert(word_of(kMxfp4, {15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15}) == ~u64{0},
              "every bit is some code's");

static_assert(validate(kInt4) == nullptr && validate(kBytes) == nullptr && validate(kRows) == nullptr);

TEST(packing, every_place_of_a_tile_holds_one_code) {
  for (const WeightFormat& f : {kInt4, kBytes, kRows, kMxfp4}) {
    std::set<std::pair<int, int>> places;
    for (int row = 0; row < kStripRows; ++row)
      for (int k = 0; k < kPackedTileK; ++k) {
        const CodePlace place = code_place(f, {row, k});
        EXPECT_EQ(place.offset % 4, 0);
        EXPECT_TRUE(place.offset >= 0 && place.offset < tile_code_bytes(f));
        EXPECT_TRUE(place.field >= 0 && place.field < cell_codes(f));
        places.emplace(place.offset, place.field);
      }
    EXPECT_EQ(places.size(), std::size_t{kPackedTileCodes}) << test::text_of(f);
  }
}

TEST(packing, lanes_and_places_are_inverses) {
  for (const WeightFormat& f : {kInt4, kBytes, kRows, kMxfp4})
    for (int lane = 0; lane < tile_lanes(f); ++lane)
      for (int index = 0; index < lane_codes(f); ++index) {
        const CodeIndex origin = lane_origin(f, lane), code = lane_code(f.order, index);
        const CodePlace wanted{lane * kLaneBytes + index / cell_codes(f) * 4 * cell_words(f),
                               index % cell_codes(f)};
        ASSERT_EQ(code_place(f, {origin.row + code.row, origin.k + code.k}), wanted)
            << test::text_of(f) << " lane " << lane << " code " << index;
      }
}

TEST(packing, every_code_in_every_field_comes_back_and_touches_no_other) {
  for (const WeightFormat& f : {kInt4, kBytes, kRows, kMxfp4})
    for (int field = 0; field < cell_codes(f); ++field)
      for (u32 code = 0; code < 1u << code_bits(f.type); ++code) {
        const u64 placed = place_code(f, code, field);
        for (const u64 around : {u64{0}, ~u64{0}}) {
          u64 mask = 0;  // the bits that belong to the field
          for (u32 other = 0; other < 1u << code_bits(f.type); ++other) mask |= place_code(f, other, field);
          const u64 word = placed | (around & ~mask);
          ASSERT_EQ(take_code(f, word, field), code) << test::text_of(f) << " field " << field;
          ASSERT_EQ(__builtin_popcountll(mask), code_bits(f.type));
        }
        ASSERT_EQ(place_code(f, code | 0x100, field), placed) << "bits above a code are not looked at";
      }
}

TEST(packing, slots_are_the_rows_of_a_group_in_pairs) {
  std::set<int> slots;
  for (int group = 0; group < 4; ++group)
    for (int row = 0; row < kStripRows; ++row) {
      const int slot = scale_slot(row, group);
      slots.insert(slot);
      EXPECT_EQ(slot / kStripRows, group);
      EXPECT_EQ(slot_row(slot), row);
      EXPECT_EQ(scale_slot(row ^ 8, group), slot ^ 1) << "a lane reads both at once";
    }
  EXPECT_EQ(slots.size(), 256u);
}

TEST(packing, all_parts_are_multiples_of_128_bytes) {
  for (const WeightFormat& f : test::all_formats()) {
    ASSERT_EQ(validate(f), nullptr);
    for (const int bytes :
         {tile_code_bytes(f), tile_scale_bytes(f), tile_zero_bytes(f), tile_bytes(f), tile_scales_offset(f),
          tile_zeros_offset(f), row_scale_bytes(f), row_zero_bytes(f)})
      EXPECT_EQ(bytes % 128, 0) << test::text_of(f);
    EXPECT_EQ(tile_bytes(f), tile_code_bytes(f) + tile_scale_bytes(f) + tile_zero_bytes(f));
    EXPECT_EQ(strip_bytes(f, 300), 3 * tile_bytes(f) + row_scale_bytes(f) + row_zero_bytes(f));
  }
}

TEST(packing, refuses_formats_with_the_rule) {
  const auto refused = [](const WeightFormat& f, const std::string& mention) {
    const char* rule = validate(f);
    ASSERT_NE(rule, nullptr) << mention;
    EXPECT_NE(std::string(rule).find(mention), std::string::npos) << rule;
  };
  for (const int group : {-1, 1, 16, 96, 256}) refused({.group = group}, "group must be 32, 64, 128");
  refused({.scale = DType::e4m3}, "scales must be");
  refused({.scale = DType::e5m2}, "scales must be");
  refused({.type = WeightType::int8, .order = FragmentOrder::byte}, "8-bit tokens");
  refused({.type = WeightType::e4m3, .order = FragmentOrder::byte}, "8-bit tokens");
  refused({.type = WeightType::e4m3, .zero = ScaleZero::per_group}, "no zeros");
  refused({.type = static_cast<WeightType>(9)}, "weights must be");
  refused(kNotPacked, "weights must be");
  refused({.type = WeightType::e2m1}, "e8m0 scales in groups of 32");
  refused({.type = WeightType::e2m1, .group = 64, .scale = DType::e8m0}, "groups of 32");
  WeightFormat other = kMxfp4;
  other.zero = ScaleZero::per_group;
  refused(other, "no zeros");
  other = kMxfp4;
  other.order = FragmentOrder::byte;
  refused(other, "order half");
  refused({.group = 32, .scale = DType::e8m0}, "scales must be fp16, bf16 or fp32");
}

TEST(packing, names_are_those_of_the_enumerators) {
  EXPECT_STREQ(name_of(WeightType::uint4), "uint4");
  EXPECT_STREQ(name_of(WeightType::int8), "int8");
  EXPECT_STREQ(name_of(WeightType::e4m3), "e4m3");
  EXPECT_STREQ(name_of(WeightType::e2m1), "e2m1");
  EXPECT_STREQ(name_of(ScaleZero::none), "none");
  EXPECT_STREQ(name_of(ScaleZero::per_group), "per_group");
  EXPECT_STREQ(name_of(FragmentOrder::half), "half");
  EXPECT_STREQ(name_of(FragmentOrder::byte), "byte");
}

}  // namespace
}  // namespace sluice
