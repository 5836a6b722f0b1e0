// SPDX-License-Identifier: Apache-2.0
// The twin's model of TMA's im2col mode. It agrees with published examples (Triton's tutorial, which asserts
// them on a Hopper GPU, and the figures of the PTX ISA) and has every documented limit. Random loads agree
// with a simple model that numbers all pixels of the box. To see it fail: leave out the carry into the next
// axis, or change the upper corner by one.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <random>

#include <sluice/twin/gather.h>

namespace sluice::twin {
namespace {

/// Returns a map of images with 4 x 4 pixels of 32 channels, four bytes each.
GatherMap small_map(i64 images, int lower, int upper, int pixels) {
  return {.rank = 4,
          .extents = {32, 4, 4, images},
          .strides = {32, 128, 512},
          .lower = {lower, lower},
          .upper = {upper, upper},
          .channels = 32,
          .pixels = pixels,
          .element_bytes = 4};
}

/// Returns the numbers, from 1, of the pixels that a load returns; 0 for pixels of zeros.
std::vector<i64> pixels_of(const GatherMap& map, const GatherAt& at, u16 offset) {
  EXPECT_TRUE(check_gather_map(map).ok());
  const u16 offsets[] = {offset, offset, offset};
  std::vector<GatherRow> rows;
  EXPECT_TRUE(gather_load(map, at, offsets, rows).ok());
  std::vector<i64> numbers;
  for (const GatherRow& row : rows)
    numbers.push_back(row.channels == 0 ? 0 : row.element / map.strides[0] + 1);
  return numbers;
}
std::vector<i64> count_from(i64 first, size_t count) {
  std::vector<i64> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

TEST(twin_gather, agrees_with_the_published_examples) {
  EXPECT_EQ(pixels_of(small_map(1, 0, 0, 16), {}, 0), count_from(1, 16));
  EXPECT_EQ(pixels_of(small_map(1, -1, -1, 16), {.pixel = {-1, -1}}, 0),
            (std::vector<i64>{0, 0, 0, 0, 0, 1, 2, 3, 0, 5, 6, 7, 0, 9, 10, 11}));
  EXPECT_EQ(pixels_of(small_map(1, -1, -1, 16), {.pixel = {-1, -1}}, 1), count_from(1, 16));
  EXPECT_EQ(pixels_of(small_map(2, 0, 0, 16), {.pixel = {3, 1}}, 0), count_from(8, 16));
  EXPECT_EQ(pixels_of(small_map(1, 0, 0, 8), {.pixel = {2, 3}}, 0),
            (std::vector<i64>{15, 16, 0, 0, 0, 0, 0, 0}))
      << "zeros behind the last image";
}

TEST(twin_gather, keeps_the_number_of_pixels_whatever_the_step) {
  const GatherMap map{.rank = 4,
                      .extents = {64, 8, 14, 64},
                      .strides = {64, 512, 7168},
                      .lower = {-1, -1},
                      .upper = {-1, -1},
                      .channels = 16,
                      .pixels = 32,
                      .steps = {1, 2, 2, 1, 1}};
  const std::vector<i64> numbers = pixels_of(map, {.channel = 7, .pixel = {-1, 5}}, 1);
  ASSERT_EQ(numbers.size(), 32u);
  EXPECT_EQ(numbers[0], 6 * 8 + 1);  // the box has four pixels per row, at w = 0, 2, 4 and 6
  EXPECT_EQ(numbers[1], 6 * 8 + 3);
  EXPECT_EQ(numbers[4], 8 * 8 + 1);
}

TEST(twin_gather, brings_the_channels_that_there_are) {
  GatherMap map = small_map(1, 0, 0, 2);
  const u16 offsets[3] = {};
  std::vector<GatherRow> rows;
  for (const auto& [channel, inside] : {std::pair{0, 32}, {20, 12}, {32, 0}, {64, 0}}) {
    ASSERT_TRUE(gather_load(map, {.channel = channel}, offsets, rows).ok());
    EXPECT_EQ(rows[1].channels, inside);
    EXPECT_EQ(rows[1].element, 32 + channel);
  }
}

TEST(twin_gather, refuses_what_the_documents_refuse) {
  const std::pair<const char*, std::function<void(GatherMap&)>> breaks[] = {
      {"rank", [](GatherMap& m) { m.rank = 2; }},
      {"extent", [](GatherMap& m) { m.extents[3] = 0; }},
      {"stride", [](GatherMap& m) { m.strides[1] = 129; }},
      {"step", [](GatherMap& m) { m.steps[1] = 9; }},
      {"channels", [](GatherMap& m) { m.channels = 64; }},
      {"pixels", [](GatherMap& m) { m.pixels = 1025; }},
      {"corner", [](GatherMap& m) { m.lower[0] = -129; }},
      {"corner", [](GatherMap& m) { m.upper[1] = 128; }},
      {"is empty", [](GatherMap& m) { m.upper[0] = -4; }}};
  for (const auto& [word, change] : breaks) {
    GatherMap map = small_map(1, 0, 0, 8);
    EXPECT_TRUE(check_gather_map(map).ok());
    change(map);
    const Result<void> found = check_gather_map(map);
    ASSERT_FALSE(found.ok()) << word;
    EXPECT_NE(found.error().message.find(word), std::string::npos) << found.error().message;
  }
  GatherMap five = small_map(1, 0, 0, 8);
  five.rank = 5;
  five.strides[3] = 512;
  five.extents[4] = 1;
  EXPECT_TRUE(check_gather_map(five).ok());
  five.lower[2] = -17;
  EXPECT_FALSE(check_gather_map(five).ok()) << "three axes have corners of 5 bits";
}

TEST(twin_gather, refuses_places_and_offsets_that_the_engine_does_not_take) {
  const GatherMap map = small_map(1, -1, -1, 8);
  std::vector<GatherRow> rows;
  const u16 none[3] = {}, far[3] = {0, 256, 0};
  EXPECT_TRUE(gather_load(map, {.pixel = {2, 2}}, none, rows).ok());
  EXPECT_FALSE(gather_load(map, {.pixel = {3, 2}}, none, rows).ok());
  EXPECT_FALSE(gather_load(map, {.pixel = {2, -2}}, none, rows).ok());
  EXPECT_FALSE(gather_load(map, {.channel = -1}, none, rows).ok());
  EXPECT_FALSE(gather_load(map, {}, far, rows).ok());
  EXPECT_FALSE(gather_store(map, {}, rows).ok()) << "a store's box lies in the tensor";
  EXPECT_TRUE(gather_store(small_map(1, 0, 0, 8), {}, rows).ok());
}

/// Computes the order of pixels by numbering all pixels of the box, for comparison.
struct Brute {
  GatherMap map;
  std::vector<GatherAt> pixels;  // all pixels of `images` images, in the order of loading

  Brute(const GatherMap& of, i64 images) : map(of) {
    const int axes = map.rank - 2;
    i64 counts[3] = {1, 1, 1};
    for (int axis = 0; axis < axes; ++axis)
      for (counts[axis] = 0;
           map.lower[axis] + counts[axis] * map.steps[axis + 1] < map.extents[axis + 1] + map.upper[axis];)
        ++counts[axis];
    for (i64 number = 0; number < images * counts[0] * counts[1] * counts[2]; ++number) {
      GatherAt at;
      i64 rest = number;
      for (int axis = 0; axis < 3; ++axis) {
        at.pixel[axis] = axis < axes ? map.lower[axis] + rest % counts[axis] * map.steps[axis + 1] : 0;
        rest /= counts[axis];
      }
      at.image = rest;
      pixels.push_back(at);
    }
  }
};

TEST(twin_gather, walks_as_a_brute_force_does) {
  std::mt19937 random(3);
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  for (int round = 0; round < 500; ++round) {
    GatherMap map{.rank = pick(3, 5), .channels = 8, .pixels = pick(1, 70)};
    const int axes = map.rank - 2;
    map.extents[0] = 16;
    i64 stride = 16 + 8 * pick(0, 2);
    for (int axis = 0; axis < axes; ++axis) {
      map.extents[axis + 1] = pick(1, 9);
      map.strides[axis] = stride;
      stride *= map.extents[axis + 1];
      map.lower[axis] = pick(-3, 2);
      do map.upper[axis] = pick(-4, 3);
      while (map.extents[axis + 1] + map.upper[axis] <= map.lower[axis]);
      map.steps[axis + 1] = pick(1, 3);
    }
    map.extents[axes + 1] = pick(1, 3);
    map.strides[axes] = stride;
    ASSERT_TRUE(check_gather_map(map).ok());
    const Brute brute(map, map.extents[axes + 1] + 70);
    const size_t first = static_cast<size_t>(pick(0, 20)) % brute.pixels.size();
    const u16 offsets[3] = {static_cast<u16>(pick(0, 4)), static_cast<u16>(pick(0, 4)),
                            static_cast<u16>(pick(0, 4))};
    std::vector<GatherRow> rows;
    ASSERT_TRUE(gather_load(map, brute.pixels[first], offsets, rows).ok());
    ASSERT_EQ(rows.size(), static_cast<size_t>(map.pixels));
    for (size_t i = 0; i < rows.size() && first + i < brute.pixels.size(); ++i) {
      const GatherAt& at = brute.pixels[first + i];
      bool inside = at.image < map.extents[axes + 1];
      i64 element = at.image * map.strides[axes];
      for (int axis = 0; axis < axes; ++axis) {
        const i64 place = at.pixel[axis] + offsets[axis];
        inside = inside && place >= 0 && place < map.extents[axis + 1];
        element += place * map.strides[axis];
      }
      ASSERT_EQ(rows[i].channels, inside ? 8 : 0) << "round " << round << ", pixel " << i;
      if (inside) {
        ASSERT_EQ(rows[i].element, element) << "round " << round << ", pixel " << i;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::twin
