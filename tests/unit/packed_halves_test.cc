// SPDX-License-Identifier: Apache-2.0
// Gated products with halves that are not whole strips: where the kernels find the two rows of a column, the
// blob, the packer's launches, and refusals. To see it fail: round n / 2 down in strip_step(), or pack both
// halves as one blob.
#include <sluice/pack.h>
#include "tests/packed_problems.h"

#include <gtest/gtest.h>

#include <utility>

#include <sluice/pack_weights.h>

#include "bench/host/packed_host.h"
#include "lab/random/problem.h"
#include "packed_formats.h"
#include "packed_launch_fixture.h"

namespace sluice {
namespace {

constexpr WeightFormat kInt4{.group = 64};

static_assert(gated_strips(14784) == 232 && strip_count(14784) == 231, "7392 rows are 115.5 strips");
static_assert(gated_blob_bytes(kInt4, 16, 128) == 2 * tile_bytes(kInt4));
static_assert(gated_blob_bytes(kInt4, 7168, 8192) == blob_bytes(kInt4, 7168, 8192), "old blobs stay valid");
static_assert(pads_halves(14784) && pads_halves(64) && !pads_halves(128) && !pads_halves(0));
static_assert(validate_gated(14784) == nullptr && validate_gated(0) == nullptr &&
              validate_gated(8) != nullptr);
static_assert(stored_bits(PackedProblem{.n = 64, .k = 128, .weights = kInt4, .gated = true}) == 8.5);

/// Meaning of a row of the blob: a row of one half of W, or padding.
struct Half {
  bool up = false, padding = false;
  i64 column = 0;
};
Half row_of_blob(i64 columns, i64 row) {
  const i64 half = round_up(columns, i64{kStripRows});
  return {.up = row >= half, .padding = row % half >= columns, .column = row % half};
}

/// Calls visit(row, column of D, row of the blob) for each row of a CTA's tile.
template <class Visit>
void for_tile_rows(const NarrowConfig& c, int columns, int cta, const Visit& visit) {
  const int first = cta * tile_columns(c), half = tile_columns(c);
  for (int row = 0; row < tile_rows(c); ++row) {
    const int strip = first / kStripRows + row / half * strip_step(c, columns);
    const int in_strip = (strip_blocks(c) == 4 ? 0 : first % kStripRows) + row % half;
    visit(row, first + row % half, i64{strip} * kStripRows + in_strip);
  }
}
template <class Visit>
void for_tile_rows(const StripConfig& c, int columns, int cta, const Visit& visit) {
  const int first = cta * (tile_columns(c) / kStripRows),
            strips = static_cast<int>(gated_strips(2 * columns));
  for (int row = 0; row < tile_rows(c); ++row)
    visit(row, first * kStripRows + row % tile_columns(c),
          i64{strip_in_blob(c, strips, first, row / kStripRows)} * kStripRows + row % kStripRows);
}

/// Expects that each column of D is computed by one CTA, from its own two rows of W.
template <class Config>
void expect_every_column_once(const Config& c, int columns) {
  std::vector<int> gates(static_cast<size_t>(columns)), ups(static_cast<size_t>(columns));
  const i64 rows = gated_strips(2 * columns) * kStripRows;
  for (int cta = 0; cta < ceil_div(columns, tile_columns(c)); ++cta)
    for_tile_rows(c, columns, cta, [&](int row, int column, i64 blob_row) {
      ASSERT_LT(blob_row, rows) << "read behind the blob";
      if (column >= columns) return;  // outside of D, so not stored
      const Half found = row_of_blob(columns, blob_row);
      ASSERT_EQ(found.column, column) << columns << " columns, row " << row << " of CTA " << cta;
      ASSERT_EQ(found.up, row >= tile_columns(c));
      ASSERT_FALSE(found.padding);
      ++(found.up ? ups : gates)[static_cast<size_t>(column)];
    });
  for (int column = 0; column < columns; ++column)
    ASSERT_TRUE(gates[static_cast<size_t>(column)] == 1 && ups[static_cast<size_t>(column)] == 1)
        << column << " of " << columns;
}

TEST(packed_halves, every_column_is_made_once_of_its_own_gate_and_up) {
  for (int columns = 8; columns <= 16384; columns += columns < 1200 ? 8 : 520) {
    for (const int row_blocks : {4, 8})
      expect_every_column_once(NarrowConfig{.gated = true, .row_blocks = row_blocks}, columns);
    for (const int strips : {2, 4})
      expect_every_column_once(StripConfig{.gated = true, .strips = strips}, columns);
    if (testing::Test::HasFailure()) return;
  }
  expect_every_column_once(NarrowConfig{.gated = true}, 7392);
}

TEST(packed_halves, lie_as_blobs_behind_each_other) {
  u64 seed = 1;
  for (const WeightFormat& f : test::all_formats())
    for (const i64 n : {16, 144, 256}) {
      const test::RandomWeights weights(f, n, 200, seed += 10);
      WeightArrays arrays = weights.arrays();
      arrays.gated = true;
      const auto blob = pack_weights(f, arrays);
      ASSERT_TRUE(blob) << blob.error().message;
      std::vector<u8> wanted;
      for (const SliceRange rows : {SliceRange{0, n / 2}, {n / 2, n}}) {
        const auto half = pack_weights(f, weights.part(rows, {0, 200}).arrays());
        ASSERT_TRUE(half);
        wanted.insert(wanted.end(), half->begin(), half->end());
      }
      EXPECT_EQ(*blob, wanted) << test::text_of(f);
      EXPECT_EQ(static_cast<i64>(blob->size()), gated_blob_bytes(f, n, 200));
      EXPECT_EQ(*blob == *pack_weights(f, weights.arrays()), !pads_halves(n));
      const auto again = unpack_weights({f, n, 200, blob->data(), true});
      ASSERT_TRUE(again);
      EXPECT_EQ(again->codes, weights.codes());
      EXPECT_EQ(again->scales, weights.scales());
      EXPECT_EQ(again->zeros, weights.zeros());
    }
}

TEST(packed_halves, misuse_of_the_reference_is_refused) {
  const test::RandomWeights weights(kInt4, 72, 128, 1);
  WeightArrays arrays = weights.arrays();
  arrays.gated = true;
  const auto odd = pack_weights(kInt4, arrays);
  ASSERT_FALSE(odd);
  EXPECT_NE(odd.error().message.find("n = 72 of a gated product must be a multiple of 16"),
            std::string::npos);
  const std::vector<u8> blob(static_cast<size_t>(gated_blob_bytes(kInt4, 144, 128)));
  const PackedWeights gated{kInt4, 144, 128, blob.data(), true};
  for (const auto& sliced : {slice_packed_rows(gated, {0, 64}), slice_packed_k(gated, {0, 128})}) {
    ASSERT_FALSE(sliced);
    EXPECT_EQ(sliced.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(sliced.error().message.find("slice each half"), std::string::npos) << sliced.error().message;
  }
}

TEST(packed_halves, of_random_problems_are_drawn_and_right) {
  const lab::RandomSpec spec{.seed = 5, .largest = 300};
  int gated = 0, padded = 0;
  for (int i = 0; i < 200; ++i) {
    const Problem p = lab::random_packed_problem(spec, {}, i);
    if (!p.epilogue.gated) continue;
    ++gated, padded += pads_halves(p.n);
    if (gated > 12) continue;
    const auto found = bench::compare_on_host(p, packed::DataKind::exact, static_cast<u64>(i));
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_TRUE(found->passed()) << to_string(p) << ": " << describe(*found);
  }
  EXPECT_GT(gated, 20);
  EXPECT_GT(padded, gated / 2);
}

class PackedHalves : public PackedLaunchTest {};

TEST_F(PackedHalves, of_a_shard_are_planned_and_launched) {
  PackedProblem p{.m = 16, .n = 14784, .k = 5120, .weights = {.group = 128}, .gated = true};
  const gemm::Kernel narrow = made(p, PackedOverrides{.row_blocks = 8});
  EXPECT_EQ(blob_bytes(narrow.plan().problem), 232 * strip_bytes(p.weights, p.k));
  EXPECT_EQ(narrow.plan().problem.d.ld, 7392);
  launched(gemm::launch(narrow, args_of(p), nullptr), 1);
  EXPECT_EQ(driver.launch(0).grid_x, 116u) << "a CTA for each strip of the gate, the last half full";
  EXPECT_EQ(driver.launch(0).narrow.n, 7392);
  launched(gemm::launch(made(p, PackedOverrides{.row_blocks = 4}), args_of(p), nullptr), 2);
  EXPECT_EQ(driver.launch(1).grid_x, 231u);
  p.m = 40;
  launched(gemm::launch(made(p, PackedOverrides{.parts = 1, .tokens = 40, .strips = 4}), args_of(p), nullptr),
           3);
  EXPECT_EQ(driver.launch(2).grid_x, 58u);
  EXPECT_EQ(driver.launch(2).strip.strips, 232);
  EXPECT_EQ(driver.launch(2).strip.n, 7392);
  for (const i64 n : {14784 + 8, 14784 + 1, 15})
    expect_refused_problem(
        p, ErrorCode::invalid_size,
        ("n = " + std::to_string(n) + " of a gated product must be a multiple of 16").c_str(),
        [&](PackedProblem& bad) { bad.n = n; });
}

TEST_F(PackedHalves, are_packed_by_a_launch_each) {
  const Result<Packer> packer = Packer::create(device(), kInt4, CodeStorage::nibble);
  ASSERT_TRUE(packer.ok()) << packer.error().message;
  const i64 n = 144, k = 128, blob = gated_blob_bytes(kInt4, n, k);
  const PackArgs args{
      .codes = driver.memory(n * k / 2), .scales = driver.memory(n * 2 * 2), .blob = driver.memory(blob)};
  refused(packer->pack({.n = 136, .k = k, .gated = true}, args, nullptr), ErrorCode::invalid_size,
          "n = 136 of a gated product must be a multiple of 16");
  PackArgs bad = args;
  bad.scales = shifted(const_cast<void*>(args.blob), blob - 64);
  refused(packer->pack({.n = n, .k = k, .gated = true}, bad, nullptr), ErrorCode::aliasing,
          "overlaps scales");
  launched(packer->pack({.n = n, .k = k, .gated = true}, args, nullptr), 2);
  EXPECT_EQ(driver.launch(0).grid_x, 2u) << "72 rows are two strips";
  EXPECT_EQ(driver.launch(1).grid_x, 2u);
  launched(packer->pack({.n = 128, .k = k, .gated = true}, args, nullptr), 3);
  EXPECT_EQ(driver.launch(2).grid_x, 2u) << "halves of whole strips come in one launch";
}

}  // namespace
}  // namespace sluice
