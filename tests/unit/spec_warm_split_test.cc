// SPDX-License-Identifier: Apache-2.0
// What the CTAs of a launch ask L2 for: each unit of the range once, nothing else, evenly. To see it fail:
// let `to` of warm_run be from + share, or `begin` the address itself.
#include <sluice/spec/warm_split.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace sluice {
namespace {

TEST(spec_warm_split, every_unit_of_the_range_once_and_none_besides) {
  std::mt19937 random(3);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int i = 0; i < 20000; ++i) {
    const i64 address = pick(0, 1) == 0 ? pick(4096, 4500) : 4096 + 128 * pick(0, 3);
    const i64 bytes = pick(1, i % 3 == 0 ? 40 : 3000);
    const u32 ctas = static_cast<u32>(pick(1, i % 2 == 0 ? 5 : 64));
    std::vector<int> asked(1024, 0);  // of units
    i64 least = 1 << 20, most = 0;
    for (u32 cta = 0; cta < ctas; ++cta) {
      const WarmRun run = warm_run(address, bytes, cta, ctas);
      ASSERT_EQ(run.begin % kWarmUnit, 0);
      ASSERT_EQ(run.end % kWarmUnit, 0);
      ASSERT_LE(run.begin, run.end);
      for (i64 at = run.begin; at < run.end; at += kWarmUnit)
        ++asked[static_cast<std::size_t>(at / kWarmUnit)];
      least = std::min(least, run.end - run.begin);
      most = std::max(most, run.end - run.begin);
    }
    for (i64 unit = 0; unit < 1024; ++unit) {
      const bool inside = (unit + 1) * kWarmUnit > address && unit * kWarmUnit < address + bytes;
      ASSERT_EQ(asked[static_cast<std::size_t>(unit)], inside ? 1 : 0)
          << address << " + " << bytes << " over " << ctas << ", unit " << unit;
    }
    ASSERT_LE(most - least, 2 * kWarmLine) << "one line more, and the ends may have less";
  }
}

TEST(spec_warm_split, no_line_is_asked_for_by_two) {
  for (u32 ctas = 1; ctas < 200; ++ctas)
    for (u32 cta = 1; cta < ctas; ++cta) {
      const WarmRun run = warm_run(4096 + 48, 12345, cta, ctas);
      EXPECT_TRUE(run.begin == run.end || run.begin % kWarmLine == 0) << cta << " of " << ctas;
    }
}

TEST(spec_warm_split, nothing_of_nothing_and_all_of_very_much) {
  EXPECT_EQ(warm_run(0, 0, 0, 1).end, 0);
  EXPECT_EQ(warm_run(4097, 0, 3, 7).end, 0);
  const WarmRun last = warm_run(i64{1} << 46, i64{1} << 38, 131, 132);
  EXPECT_EQ(last.end, (i64{1} << 46) + (i64{1} << 38));
}

}  // namespace
}  // namespace sluice
