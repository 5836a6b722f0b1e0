// SPDX-License-Identifier: Apache-2.0
// Compares packed blobs with the tensor core's registers. Each lane's words are masked and rotated as in
// docs/packing.md; the numbers must be the codes of the row and k that PTX assigns to that place. Also
// packing, unpacking, padding, slices and misuse. To see it fail: ignore the rows' scales in a slice of k.
#include <sluice/pack_weights.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include <sluice/reference/element.h>

#include "packed_formats.h"

namespace sluice {
namespace {

using test::RandomWeights;

struct Size {
  i64 n, k;
};
constexpr Size kSizes[] = {{64, 128}, {1, 1}, {65, 129}, {100, 200}, {17, 300}, {130, 96}, {63, 1000}};

std::vector<u8> packed(const WeightFormat& f, const RandomWeights& weights) {
  const Result<std::vector<u8>> blob = pack_weights(f, weights.arrays());
  EXPECT_TRUE(blob) << (blob ? "" : blob.error().message);
  return blob ? *blob : std::vector<u8>();
}

u32 word_at(const std::vector<u8>& blob, i64 offset) {
  u32 word = 0;
  std::memcpy(&word, blob.data() + offset, 4);
  return word;
}
double half_value(DType type, u32 reg, int half) {
  return decode_code(type, reg >> (16 * half) & 0xffff);
}

/// Calls look(words, first row, first k) for each lane's 16 bytes of a blob.
template <class Look>
void for_each_lane(const WeightFormat& f, Size size, const std::vector<u8>& blob, Look look) {
  const int chunk_k = f.type == WeightType::uint4 ? 64 : 32;
  for (i64 row = 0; row < size.n; row += 64)
    for (i64 k = 0; k < size.k; k += 128) {
      i64 at = tile_offset(f, size.k, row / 64, k / 128);
      for (int chunk = 0; chunk < 128 / chunk_k; ++chunk)
        for (int block = 0; block < 4; ++block)
          for (int lane = 0; lane < 32; ++lane, at += 16) {
            const u32 words[4] = {word_at(blob, at), word_at(blob, at + 4), word_at(blob, at + 8),
                                  word_at(blob, at + 12)};
            look(words, row + 16 * block + lane / 4, k + chunk * chunk_k, lane % 4);
          }
    }
}

TEST(packed_operands, uint4_are_exact_fp16_and_bf16_after_masks_and_rotates) {
  const WeightFormat f{.group = 128};
  for (const Size size : kSizes) {
    const RandomWeights weights(f, size.n, size.k, 7);
    for_each_lane(f, size, packed(f, weights), [&](const u32* words, i64 row, i64 k, int c) {
      for (int fragment = 0; fragment < 4; ++fragment)
        for (int j = 0; j < 4; ++j) {
          const u32 fp16 = rotate_right(words[fragment], 4 * j) & 0x00780078;
          const u32 bf16 = fp16 | 0x41804180;
          const u32 odd = (j < 2 ? words[fragment] : rotate_right(words[fragment], 8)) & 0x07800780;
          for (int half = 0; half < 2; ++half) {
            const double code =
                weights.code(row + 8 * (j & 1), k + 16 * fragment + 8 * (j >> 1) + 2 * c + half);
            ASSERT_EQ(half_value(DType::fp16, fp16, half), std::ldexp(code, -21));
            ASSERT_EQ(half_value(DType::bf16, bf16, half), 16 + code);
            if (j % 2 == 1) {
              ASSERT_EQ(half_value(DType::fp16, odd, half), std::ldexp(code, -17));
            }
          }
        }
    });
  }
}

TEST(packed_operands, bytes_lie_at_bits_10_to_3_of_each_half) {
  for (const WeightType type : {WeightType::int8, WeightType::e4m3}) {
    const WeightFormat f{.type = type, .group = 128};
    for (const Size size : kSizes) {
      const RandomWeights weights(f, size.n, size.k, 8);
      for_each_lane(f, size, packed(f, weights), [&](const u32* words, i64 row, i64 k, int c) {
        for (int fragment = 0; fragment < 2; ++fragment)
          for (int j = 0; j < 4; ++j) {
            const u32 reg = rotate_right(words[2 * fragment + j / 2], j % 2 * 8);
            for (int half = 0; half < 2; ++half)
              ASSERT_EQ(reg >> (16 * half + 3) & 0xff,
                        weights.code(row + 8 * (j & 1), k + 16 * fragment + 8 * (j >> 1) + 2 * c + half));
          }
      });
    }
  }
}

/// After the rotation each code is a whole byte, as device/math/code_fragments.cuh expects it. Codes 0 and 2
/// are in register 0.
TEST(packed_operands, bytes_are_whole_when_a_word_is_turned_by_3) {
  const WeightFormat f{.type = WeightType::e4m3};
  for (u32 code = 0; code < 256; ++code)
    for (int field = 0; field < 4; ++field) {
      const int byte = field / 2 + field % 2 * 2;  // the code is in register field / 2, half field % 2
      EXPECT_EQ(rotate_right(static_cast<u32>(place_code(f, code, field)), 3), code << (8 * byte));
    }
}

TEST(packed_operands, uint4_are_exact_e4m3_after_masks_and_shifts) {
  const WeightFormat f{.group = 128, .order = FragmentOrder::byte};
  for (const Size size : kSizes) {
    const RandomWeights weights(f, size.n, size.k, 9);
    for_each_lane(f, size, packed(f, weights), [&](const u32* words, i64 row, i64 k, int c) {
      for (int fragment = 0; fragment < 2; ++fragment)
        for (int j = 0; j < 4; ++j) {
          const u32 word = words[2 * fragment + j / 2];
          const u32 reg = j % 2 == 0 ? (word & 0x8e8e8e8e) | 0x01010101
                                     : (word >> 3 & 0x0e0e0e0e) | (word << 7 & 0x80808080) | 0x01010101;
          for (int byte = 0; byte < 4; ++byte) {
            const double code =
                weights.code(row + 8 * (j & 1), k + 32 * fragment + 16 * (j >> 1) + 4 * c + byte);
            ASSERT_EQ(decode_code(DType::e4m3, reg >> (8 * byte) & 0xff), std::ldexp(code - 7.5, -8));
          }
        }
    });
  }
}

TEST(packed_weights, unpacking_gives_the_arrays_back) {
  u64 seed = 1;
  for (const WeightFormat& f : test::all_formats())
    for (const Size size : {Size{65, 129}, {100, 200}, {3, 33}, {64, 128}}) {
      const RandomWeights weights(f, size.n, size.k, seed += 10);
      const std::vector<u8> blob = packed(f, weights);
      ASSERT_EQ(static_cast<i64>(blob.size()), blob_bytes(f, size.n, size.k));
      const auto arrays = unpack_weights({f, size.n, size.k, blob.data()});
      ASSERT_TRUE(arrays);
      EXPECT_EQ(arrays->codes, weights.codes()) << test::text_of(f);
      EXPECT_EQ(arrays->scales, weights.scales()) << test::text_of(f);
      EXPECT_EQ(arrays->zeros, weights.zeros()) << test::text_of(f);
    }
}

/// A kernel reads the scales of a lane's two rows at the offsets that docs/packing.md states.
TEST(packed_weights, scales_lie_where_the_page_says) {
  const WeightFormat grouped{.group = 32, .scale = DType::fp32, .zero = ScaleZero::per_group};
  const WeightFormat rows{.group = 0, .scale = DType::fp16, .zero = ScaleZero::per_group};
  for (const WeightFormat& f : {grouped, rows}) {
    const Size size{100, 200};
    const RandomWeights weights(f, size.n, size.k, 3);
    const std::vector<u8> blob = packed(f, weights);
    const i64 groups = group_count(f, size.k), bytes = bytes_of(f.scale);
    for (i64 row = 0; row < 128; ++row)
      for (i64 group = 0; group < (f.group == 0 ? 1 : 8); ++group) {
        const i64 in_block = row % 16, slot = row % 64 / 16 * 16 + in_block % 8 * 2 + in_block / 8;
        const i64 part = f.group == 0 ? row / 64 * strip_bytes(f, 200) + 2 * 4096
                                      : row / 64 * strip_bytes(f, 200) + group / 4 * (4096 + 2048) + 4096;
        const i64 at = part + (f.group == 0 ? slot : group % 4 * 64 + slot) * bytes;
        const i64 zeros = f.group == 0 ? 128 : 1024;
        const bool inside = row < size.n && group < groups;
        for (i64 i = 0; i < bytes; ++i) {
          const auto from = static_cast<std::size_t>((row * groups + group) * bytes + i);
          ASSERT_EQ(blob[static_cast<std::size_t>(at + i)], inside ? weights.scales()[from] : 0);
          ASSERT_EQ(blob[static_cast<std::size_t>(at + zeros + i)], inside ? weights.zeros()[from] : 0);
        }
      }
  }
}

TEST(packed_weights, padding_has_code_zero) {
  for (const WeightFormat& f : test::all_formats()) {
    const RandomWeights weights(f, 65, 129, 5);
    const std::vector<u8> blob = packed(f, weights);
    const auto arrays = unpack_weights({f, 128, 256, blob.data()});  // arrays as large as the blob

    ASSERT_TRUE(arrays);
    for (i64 row = 0; row < 128; ++row)
      for (i64 k = 0; k < 256; ++k)
        ASSERT_EQ(arrays->codes[static_cast<std::size_t>(row * 256 + k)], weights.code(row, k));
  }
}

TEST(packed_weights, dequantise_is_scale_times_code_minus_zero) {
  for (const WeightFormat& f : test::all_formats()) {
    const i64 n = 65, k = 200, groups = group_count(f, k);
    RandomWeights random(f, n, k, 11);
    std::vector<u8> scales(random.scales().size()), zeros(random.zeros().size());
    const auto fraction_of = [&](i64 i) {
      return f.scale == DType::e8m0 ? 0.0 : static_cast<double>(i % 5) / 8;
    };
    for (i64 i = 0; i < n * groups; ++i) {
      store_element(f.scale, scales.data(), i, std::ldexp(1.0 + fraction_of(i), -3));
      if (!zeros.empty())
        store_element(f.scale, zeros.data(), i, static_cast<double>(i % 16) + 0.5 * (i % 2));
    }
    const WeightArrays arrays{n, k, random.codes().data(), scales.data(),
                              zeros.empty() ? nullptr : zeros.data()};
    const auto blob = pack_weights(f, arrays);
    ASSERT_TRUE(blob) << blob.error().message;
    const auto values = dequantise_weights({f, n, k, blob->data()});
    ASSERT_TRUE(values);
    for (i64 row = 0; row < n; ++row)
      for (i64 i = 0; i < k; ++i) {
        const i64 at = row * groups + (f.group == 0 ? 0 : i / f.group);
        const double implied = f.type == WeightType::uint4 ? 8 : f.type == WeightType::int8 ? 128 : 0;
        const double zero = zeros.empty() ? implied : static_cast<double>(at % 16) + 0.5 * (at % 2);
        const double code =
            f.type == WeightType::e4m3 ? decode_code(DType::e4m3, random.code(row, i))
            : f.type == WeightType::e2m1
                ? decode_code(DType::e5m2, (random.code(row, i) & 8) << 4 | (random.code(row, i) & 7) << 1) *
                      0x1p14
                : random.code(row, i);
        const double wanted = std::ldexp(1.0 + fraction_of(at), -3) * (code - zero);
        const double got = values->at(static_cast<std::size_t>(row * k + i));
        ASSERT_TRUE(got == wanted || (std::isnan(got) && std::isnan(wanted)))
            << test::text_of(f) << " [" << row << "][" << i << "]: " << got << ", not " << wanted;
      }
  }
}

TEST(packed_weights, a_slice_of_the_blob_is_the_blob_of_the_slice) {
  const i64 n = 200, k = 500;
  for (const WeightFormat& f : test::all_formats()) {
    const RandomWeights weights(f, n, k, 17);
    const std::vector<u8> blob = packed(f, weights);
    for (const SliceRange rows : {SliceRange{0, 64}, {64, 192}, {128, 200}, {0, 200}, {64, 64}}) {
      const auto slice = slice_packed_rows({f, n, k, blob.data()}, rows);
      ASSERT_TRUE(slice) << slice.error().message;
      EXPECT_EQ(*slice, packed(f, weights.part(rows, {0, k}))) << test::text_of(f) << " rows " << rows.begin;
    }
    for (const SliceRange part : {SliceRange{0, 128}, {128, 384}, {384, 500}, {0, 500}, {256, 256}}) {
      const auto slice = slice_packed_k({f, n, k, blob.data()}, part);
      ASSERT_TRUE(slice) << slice.error().message;
      EXPECT_EQ(*slice, packed(f, weights.part({0, n}, part))) << test::text_of(f) << " k " << part.begin;
    }
  }
}

TEST(packed_weights, nothing_packs_to_nothing) {
  for (const WeightFormat& f : test::all_formats())
    for (const Size size : {Size{0, 0}, {0, 128}, {64, 0}}) {
      const auto blob = pack_weights(f, {.n = size.n, .k = size.k});
      ASSERT_TRUE(blob) << blob.error().message;
      EXPECT_TRUE(blob->empty());
      EXPECT_TRUE(unpack_weights({f, size.n, size.k, nullptr}));
    }
}

template <class T>
void refused(const Result<T>& result, ErrorCode code, const std::string& mention) {
  ASSERT_FALSE(result) << mention;
  EXPECT_EQ(result.error().code, code) << result.error().message;
  EXPECT_NE(result.error().message.find(mention), std::string::npos) << result.error().message;
}

TEST(packed_weights, misuse_is_refused_with_value_and_rule) {
  const WeightFormat f{.group = 64}, with_zeros{.group = 64, .zero = ScaleZero::per_group};
  const RandomWeights weights(with_zeros, 64, 128, 1);
  WeightArrays arrays = weights.arrays();
  refused(pack_weights({.group = 48}, arrays), ErrorCode::invalid_config, "group must be 32");
  refused(pack_weights(f, arrays), ErrorCode::invalid_argument, "zeros are given");
  arrays.zeros = nullptr;
  refused(pack_weights(with_zeros, arrays), ErrorCode::invalid_pointer, "zeros is null");
  arrays.scales = nullptr;
  refused(pack_weights(f, arrays), ErrorCode::invalid_pointer, "scales is null");
  refused(pack_weights(f, {.n = 1, .k = 1}), ErrorCode::invalid_pointer, "codes is null");
  refused(pack_weights(f, {.n = -1, .k = 128}), ErrorCode::invalid_size, "n = -1");
  refused(pack_weights(f, {.n = 64, .k = i64{1} << 31}), ErrorCode::invalid_size, "k = 2147483648");
  std::vector<u8> codes(64 * 128);
  codes[2 * 128 + 5] = 17;
  refused(pack_weights(f, {64, 128, codes.data(), weights.scales().data(), nullptr}),
          ErrorCode::invalid_argument, "codes[2][5] = 17 must be at most 15");

  const std::vector<u8> blob = packed(with_zeros, weights);
  const PackedWeights whole{with_zeros, 64, 128, blob.data()};
  refused(unpack_weights({f, 64, 128, nullptr}), ErrorCode::invalid_pointer, "blob is null");
  refused(dequantise_weights({f, 64, -2, nullptr}), ErrorCode::invalid_size, "k = -2");
  refused(slice_packed_rows(whole, {32, 64}), ErrorCode::invalid_size, "begin at a multiple of 64");
  refused(slice_packed_rows(whole, {0, 63}), ErrorCode::invalid_size, "end at a multiple of 64");
  refused(slice_packed_rows(whole, {0, 65}), ErrorCode::invalid_size, "lie in the matrix");
  refused(slice_packed_rows(whole, {64, 0}), ErrorCode::invalid_size, "64..0 of 64");
  refused(slice_packed_k(whole, {64, 128}), ErrorCode::invalid_size, "begin at a multiple of 128");
  refused(slice_packed_k(whole, {0, 127}), ErrorCode::invalid_size, "end at a multiple of 128");
  refused(slice_packed_k(whole, {-128, 128}), ErrorCode::invalid_size, "-128..128");
}

}  // namespace
}  // namespace sluice
