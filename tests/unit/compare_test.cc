// SPDX-License-Identifier: Apache-2.0
// The comparison of two results (run/ops/compare.h): which count as equal, and that its kernel compiles. To
// see it fail: leave out one of the three bounds in is_within(), or compare NaN by value.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <sluice/run/jit/compiler.h>
#include <sluice/run/ops/compare.h>

#include "launch_fixture.h"

namespace sluice {
namespace {

class Comparisons : public LaunchTest {
 protected:
  static constexpr i64 kRows = 8, kColumns = 16, kPitch = 24, kBatches = 2, kBatchPitch = 256;

  /// Compares an fp32 result with a copy that `change` has altered. Returns true if they count as equal.
  template <class Change>
  bool alike(const ops::Tolerance& tolerance, const Change& change, float fill = 2) {
    const i64 bytes = kBatches * kBatchPitch * 4;
    auto* const x = static_cast<float*>(driver.memory(bytes));
    auto* const y = static_cast<float*>(driver.memory(bytes));
    for (i64 i = 0; i < bytes / 4; ++i) x[i] = y[i] = i % 2 == 0 ? fill : -fill;
    change(x, y);
    Result<ops::Comparison> comparison = ops::Comparison::create(device(), 2);
    EXPECT_TRUE(comparison.ok());
    const StreamHandle stream = *StreamHandle::create(device());
    const ops::ResultPair pair{.first = x,
                               .second = y,
                               .type = DType::fp32,
                               .memory = {.row_bytes = kColumns * 4,
                                          .rows = kRows,
                                          .row_pitch = kPitch * 4,
                                          .batches = kBatches,
                                          .batch_pitch = kBatchPitch * 4}};
    ops::ResultPair same = pair;
    same.second = x;
    EXPECT_TRUE(comparison->add(same, tolerance, stream.get()).ok());
    EXPECT_TRUE(comparison->add(pair, tolerance, stream.get()).ok());
    EXPECT_FALSE(comparison->add(pair, tolerance, stream.get()).ok()) << "no room";
    const Result<std::vector<bool>> verdicts = comparison->verdicts(stream);
    EXPECT_TRUE(verdicts.ok());
    EXPECT_TRUE(verdicts->at(0)) << "a result is like itself";
    return verdicts->at(1);
  }
  static constexpr i64 kSomewhere = kBatchPitch + 5 * kPitch + 7;  // index of an arbitrary element
};

TEST_F(Comparisons, differences_beyond_the_tolerance_are_found) {
  const auto off = [](float by) { return [by](float*, float* y) { y[kSomewhere] += by; }; };
  EXPECT_TRUE(alike({}, off(0)));
  EXPECT_FALSE(alike({}, off(0.001f)));
  EXPECT_TRUE(alike({.share = 0.1, .rms_share_of_rms = 1}, off(0.19f)));
  EXPECT_FALSE(alike({.share = 0.1, .rms_share_of_rms = 1}, off(0.21f)));
  EXPECT_TRUE(alike({.share_of_rms = 0.5, .rms_share_of_rms = 1}, off(0.99f)));
  EXPECT_FALSE(alike({.share_of_rms = 0.5, .rms_share_of_rms = 1}, off(1.01f)));
  // One of 256 elements differs by 1, so the root mean square of the differences is 1/16.
  EXPECT_TRUE(alike({.share_of_rms = 1, .rms_share_of_rms = 0.032}, off(1)));
  EXPECT_FALSE(alike({.share_of_rms = 1, .rms_share_of_rms = 0.031}, off(1)));
}

TEST_F(Comparisons, gaps_between_rows_and_batches_do_not_count) {
  const auto in_gaps = [](float*, float* y) {
    y[kColumns] = y[kRows * kPitch] = y[kBatchPitch + 3 * kPitch + kColumns + 1] = 1e9f;
  };
  EXPECT_TRUE(alike({}, in_gaps));
}

TEST_F(Comparisons, nan_and_infinity_match_themselves_alone) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = INFINITY;
  const ops::Tolerance wide{.share = 1, .share_of_rms = 1e9, .rms_share_of_rms = 1e9};
  const auto both = [](float one, float other) {
    return [=](float* x, float* y) {
      x[kSomewhere] = one;
      y[kSomewhere] = other;
    };
  };
  EXPECT_TRUE(alike(wide, both(nan, -nan)));
  EXPECT_TRUE(alike(wide, both(infinity, infinity)));
  EXPECT_FALSE(alike(wide, both(infinity, -infinity)));
  EXPECT_FALSE(alike(wide, both(nan, infinity)));
  EXPECT_FALSE(alike(wide, both(1, nan)));
  EXPECT_FALSE(alike(wide, both(infinity, 1)));
}

TEST_F(Comparisons, spacing_is_that_of_the_type) {
  EXPECT_EQ(ops::spacing_of(DType::bf16), 1.0 / 128);
  EXPECT_EQ(ops::spacing_of(DType::fp16), 1.0 / 1024);
  EXPECT_EQ(ops::spacing_of(DType::e4m3), 1.0 / 8);
}

TEST(compare_unit, compiles_for_hopper_without_spills) {
  const auto compiler = Compiler::load("");
  ASSERT_TRUE(compiler) << compiler.error().message;
  const auto cubin = (*compiler)->compile(ops::compare_unit_text());
  ASSERT_TRUE(cubin) << cubin.error().message;
  EXPECT_EQ(cubin->report.spill_bytes, 0);
  EXPECT_LE(cubin->report.registers, 128);
}

}  // namespace
}  // namespace sluice
