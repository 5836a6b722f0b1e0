// SPDX-License-Identifier: Apache-2.0
// The number of CTAs that share a row is limited by what fits on the GPU and by the work. To see it fail:
// leave out either condition of row_team.
#include <sluice/spec/row_team.h>

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(spec_row_team, fills_the_sms_and_no_more) {
  for (i64 rows = 1; rows < 300; ++rows)
    for (i64 chunks = 1; chunks < 4000; chunks += 37) {
      const i64 team = row_team(rows, chunks, 256, 132);
      EXPECT_TRUE(team == 1 || team == 2 || team == 4 || team == 8);
      EXPECT_TRUE(team == 1 || team * rows <= 132) << rows;
      EXPECT_TRUE(team == 1 || team / 2 * 256 < chunks) << chunks;
      EXPECT_TRUE(team == 8 || 2 * team * rows > 132 || team * 256 >= chunks) << rows << " " << chunks;
    }
  EXPECT_EQ(row_team(0, 0, 256, 132), 1u);
}

}  // namespace
}  // namespace sluice
