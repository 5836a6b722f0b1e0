// SPDX-License-Identifier: Apache-2.0
// L2 prefetch by the CTAs of a launch: each unit of the range once, nothing else, evenly divided; also shares
// of rows. To see it fail: let `end` of warm_piece be begin + kWarmPieceBytes, or `step` of spread_rows 1 <<
// 32.
#include <sluice/spec/warm_split.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace sluice {
namespace {

const void* at(i64 address) {
  return reinterpret_cast<const void*>(address);
}

/// Returns the pieces of a CTA in the order of device/warm.cuh.
std::vector<WarmPiece> pieces_of(const WarmRange& range, u32 cta, u32 ctas) {
  std::vector<WarmPiece> pieces;
  const u32 per_chunk = warm_pieces_of_chunk(range);
  for (u32 i = cta; i < per_chunk * range.chunks; i += ctas) {
    const WarmPiece piece = warm_piece(range, i / per_chunk, i % per_chunk);
    EXPECT_EQ(piece.begin % kWarmUnit, 0);
    EXPECT_EQ(piece.end % kWarmUnit, 0);
    EXPECT_LE(piece.begin, piece.end);
    EXPECT_LE(piece.end - piece.begin, kWarmPieceBytes);
    pieces.push_back(piece);
  }
  return pieces;
}

TEST(spec_warm_split, every_unit_of_each_chunk_once_and_none_besides) {
  std::mt19937 random(3);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int i = 0; i < 20000; ++i) {
    WarmRange range{at(pick(0, 1) == 0 ? pick(4096, 4500) : 4096 + 128 * pick(0, 3)),
                    pick(1, i % 3 == 0 ? 40 : 9000)};
    if (i % 2 == 0) {
      const i64 rows = pick(1, 12), stride = (range.bytes + pick(0, 300) + 15) / 16 * 16;
      range = spread_rows(range.data, range.bytes, stride, rows, pick(1, 14));
    }
    const u32 ctas = static_cast<u32>(pick(1, i % 2 == 0 ? 5 : 64));
    std::vector<int> asked(16384, 0), wanted(16384, 0);  // requests per unit: counted and expected
    std::size_t least = 1 << 20, most = 0;
    for (u32 cta = 0; cta < ctas; ++cta) {
      const std::vector<WarmPiece> pieces = pieces_of(range, cta, ctas);
      for (const WarmPiece& piece : pieces)
        for (i64 unit = piece.begin; unit < piece.end; unit += kWarmUnit)
          ++asked[static_cast<std::size_t>(unit / kWarmUnit)];
      least = std::min(least, pieces.size());
      most = std::max(most, pieces.size());
    }
    for (u32 chunk = 0; chunk < range.chunks; ++chunk) {
      const i64 begin =
          reinterpret_cast<i64>(range.data) + static_cast<i64>(chunk * range.step >> 32) * range.stride;
      for (i64 unit = begin / kWarmUnit; unit * kWarmUnit < begin + range.bytes; ++unit)
        ++wanted[static_cast<std::size_t>(unit)];
    }
    ASSERT_EQ(asked, wanted) << range.bytes << " x " << range.chunks << " over " << ctas;
    ASSERT_LE(most - least, 1u);
  }
}

TEST(spec_warm_split, no_line_of_a_chunk_is_asked_for_by_two) {
  for (u32 ctas = 1; ctas < 100; ++ctas)
    for (u32 cta = 0; cta < ctas; ++cta)
      for (const WarmPiece& piece : pieces_of({at(4096 + 48), 123456}, cta, ctas))
        EXPECT_TRUE(piece.begin == 4096 + 48 || piece.begin % kWarmLine == 0) << cta << " of " << ctas;
}

TEST(spec_warm_split, nothing_of_nothing_and_all_of_very_much) {
  EXPECT_TRUE(pieces_of({}, 0, 1).empty());
  EXPECT_TRUE(pieces_of({at(4097), 0}, 3, 7).empty());
  const WarmRange much{at(i64{1} << 46), i64{1} << 38};
  const u32 pieces = warm_pieces_of_chunk(much);
  EXPECT_EQ(warm_piece(much, 0, pieces - 1).end, (i64{1} << 46) + (i64{1} << 38));
}

TEST(spec_warm_split, any_run_of_rows_has_the_same_share) {
  for (const i64 rows : {16, 1280, 4096, 28672, 65536})
    for (const i64 chunks : {i64{1}, rows / 100 + 1, rows / 3, rows - 1}) {
      const WarmRange range = spread_rows(at(1 << 20), 256, 512, rows, chunks);
      ASSERT_EQ(range.chunks, chunks);
      std::vector<i64> taken(static_cast<std::size_t>(rows) + 1, 0);  // units before each row
      for (u32 i = 0; i < range.chunks; ++i) {
        const i64 row = static_cast<i64>(i * range.step >> 32);
        ASSERT_LT(row, rows);
        ++taken[static_cast<std::size_t>(row) + 1];
      }
      for (std::size_t row = 1; row < taken.size(); ++row) {
        ASSERT_LE(taken[row], 1) << "a row twice";
        taken[row] += taken[row - 1];
      }
      for (const i64 tile : {16, 64, 256})
        for (i64 first = 0; first + tile <= rows; first += tile) {
          const i64 found =
              taken[static_cast<std::size_t>(first + tile)] - taken[static_cast<std::size_t>(first)];
          const double share = static_cast<double>(tile * chunks) / static_cast<double>(rows);
          ASSERT_LE(std::abs(static_cast<double>(found) - share), 1.01) << rows << ", " << chunks;
        }
    }
}

TEST(spec_warm_split, all_rows_without_gaps_are_one_chunk) {
  const WarmRange all = spread_rows(at(4096), 256, 256, 10, 99);
  EXPECT_EQ(all.chunks, 1u);
  EXPECT_EQ(all.bytes, 2560);
  EXPECT_EQ(total_bytes(spread_rows(at(4096), 256, 512, 10, 99)), 2560);
  EXPECT_EQ(total_bytes(spread_rows(at(4096), 256, 256, 10, 0)), 0);
  EXPECT_EQ(total_bytes(spread_rows(at(4096), 0, 256, 10, 3)), 0);
}

}  // namespace
}  // namespace sluice
