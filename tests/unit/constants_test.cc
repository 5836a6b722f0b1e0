// SPDX-License-Identifier: Apache-2.0
// The planner's table of constants can be read by people: every row has a unit, a meaning and a source that
// is there. How this can fail: a source that names a page which was moved, or two rows of one set with one
// name.
#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include <sluice/host/planner/constants.h>

namespace sluice {
namespace {

TEST(constants, every_row_says_unit_meaning_and_source) {
  std::set<std::string> names;
  for (const ConstantText& row : all_constants()) {
    const std::string name = row.set + "." + row.name;
    EXPECT_TRUE(names.insert(name).second) << name << " twice";
    EXPECT_FALSE(row.value.empty() || row.unit.empty() || row.meaning.empty() || row.source.empty()) << name;
    if (!row.source.starts_with("docs/")) continue;
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(SLUICE_SOURCE_DIR) / row.source)) << name;
  }
  EXPECT_GT(names.size(), 150u);
}

TEST(constants, bounds_hold_the_values_that_are_fitted) {
  for (const Constant<DenseCosts>& row : dense_constants()) {
    if (row.most == 0) continue;
    EXPECT_GE(kPlanner.dense.*row.member, row.least) << row.name;
    EXPECT_LE(kPlanner.dense.*row.member, row.most) << row.name;
  }
}

}  // namespace
}  // namespace sluice
