// SPDX-License-Identifier: Apache-2.0
// Block scales of D as the kernels compute them, on simulated threads: four threads have a row's 128 columns,
// as in a WGMMA fragment. Scales and codes must be those of the quantiser in every bit, wherever the largest
// value lies, at the edge of D, and with NaN, infinity and tiny values. To see it fail: shuffle over two
// lanes in quantise_block(), or let elements behind D's last column count.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <sluice/reference/element.h>
#include <sluice/reference/quantize.h>

#include "simulated_grid.h"
//
#include <sluice/device/math/quad_scale.cuh>

namespace sluice {
namespace {

struct HostPair {
  float x, y;
};
struct HostFragment {
  HostPair upper, lower;
};
constexpr int kRows = 16;  // rows of one warp
using Rows = std::vector<std::vector<float>>;

struct Quantised {
  std::vector<u8> codes;
  std::vector<float> scales;
};

/// One warp, whose threads have values as WGMMA leaves them. Columns from `columns` on are behind D.
Quantised by_quads(const Rows& rows, int columns) {
  Quantised result{std::vector<u8>(kRows * kScaleBlock), std::vector<float>(kRows)};
  simulated_grid::launch(
      1,
      [&] {
        const int lane = static_cast<int>(threadIdx.x), row = lane / 4, first = lane % 4 * 2;
        HostFragment groups[kBlockGroups];
        for (int i = 0; i < kBlockGroups; ++i) {
          const auto pair = [&](int r) {
            return HostPair{rows[static_cast<size_t>(r)][static_cast<size_t>(8 * i + first)],
                            rows[static_cast<size_t>(r)][static_cast<size_t>(8 * i + first + 1)]};
          };
          groups[i] = {pair(row), pair(row + 8)};
        }
        const QuadScales found = quantise_block(groups, columns - first);
        result.scales[static_cast<size_t>(row)] = found.upper;
        result.scales[static_cast<size_t>(row + 8)] = found.lower;
        for (int i = 0; i < kBlockGroups; ++i)
          for (const bool lower : {false, true}) {
            const HostPair& pair = lower ? groups[i].lower : groups[i].upper;
            const size_t at = static_cast<size_t>((row + (lower ? 8 : 0)) * kScaleBlock + 8 * i + first);
            result.codes[at] = static_cast<u8>(encode_code(DType::e4m3, pair.x));
            result.codes[at + 1] = static_cast<u8>(encode_code(DType::e4m3, pair.y));
          }
      },
      32);
  return result;
}

void expect_equals_quantiser(const Rows& rows, int columns) {
  const Quantised found = by_quads(rows, columns);
  for (int row = 0; row < kRows; ++row) {
    float scale = 0;
    std::vector<u8> codes(kScaleBlock);
    reference_quantize({.type = DType::fp32,
                        .data = rows[static_cast<size_t>(row)].data(),
                        .rows = 1,
                        .columns = columns,
                        .ld = kScaleBlock},
                       Granularity::row_block, codes.data(), kScaleBlock, &scale);
    ASSERT_EQ(__builtin_bit_cast(u32, found.scales[static_cast<size_t>(row)]), __builtin_bit_cast(u32, scale))
        << "row " << row;
    for (int column = 0; column < columns; ++column)
      ASSERT_EQ(found.codes[static_cast<size_t>(row * kScaleBlock + column)],
                codes[static_cast<size_t>(column)])
          << row << ", " << column;
  }
}

Rows values(float magnitude) {
  Rows rows(kRows, std::vector<float>(kScaleBlock));
  u32 seed = 1;
  for (auto& row : rows)
    for (float& value : row) {
      seed = seed * 1664525u + 1013904223u;
      value = magnitude * (static_cast<float>(seed >> 8) / 8388608.0f - 1.0f);
    }
  return rows;
}

TEST(quad_scale, is_the_quantisers_wherever_the_largest_value_lies) {
  for (int column = 0; column < kScaleBlock; ++column) {
    Rows rows = values(1.0f);
    for (int row = 0; row < kRows; ++row)
      rows[static_cast<size_t>(row)][static_cast<size_t>((column + 7 * row) % kScaleBlock)] =
          row % 2 == 0 ? 37.3f : -911.7f;
    expect_equals_quantiser(rows, kScaleBlock);
  }
}

TEST(quad_scale, ignores_what_lies_behind_d) {
  for (const int columns : {1, 2, 7, 16, 63, 64, 127}) {
    Rows rows = values(3.0f);
    for (auto& row : rows)
      for (int column = columns; column < kScaleBlock; ++column)
        row[static_cast<size_t>(column)] = column % 2 == 0 ? 1e30f : std::numeric_limits<float>::quiet_NaN();
    expect_equals_quantiser(rows, columns);
  }
}

TEST(quad_scale, takes_special_values_as_the_quantiser_does) {
  Rows rows = values(1e-6f);  // below the smallest amax
  rows[1].assign(kScaleBlock, 0.0f);
  rows[2][77] = std::numeric_limits<float>::quiet_NaN();
  rows[3][5] = -std::numeric_limits<float>::infinity();
  rows[9][126] = std::numeric_limits<float>::quiet_NaN();
  rows[10][1] = std::numeric_limits<float>::max();
  rows[11][127] = std::numeric_limits<float>::denorm_min();
  expect_equals_quantiser(rows, kScaleBlock);
}

}  // namespace
}  // namespace sluice
