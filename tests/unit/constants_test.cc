// SPDX-License-Identifier: Apache-2.0
// The planner's table of constants: every row has a unit, a meaning and a source that exists. Fails if a page
// that is named as a source was moved, or if two rows of a set have the same name.
#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include <sluice/plan/constants.h>
#include <sluice/plan/costs.h>

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
  EXPECT_GT(names.size(), 100u);
}

/// Counts the numbers of all cost models. To add one above the limit, another one must go.
TEST(constants, cost_models_have_at_most_sixty_numbers) {
  EXPECT_EQ(sizeof(Costs) / sizeof(double), cost_constants().size());
  EXPECT_LE(cost_constants().size(), 60u);
}

TEST(constants, bounds_hold_the_values_that_are_fitted) {
  for (const Constant<Costs>& row : cost_constants()) {
    EXPECT_GE(kCosts.*row.member, row.least) << row.name;
    EXPECT_LE(kCosts.*row.member, row.most) << row.name;
  }
}

}  // namespace
}  // namespace sluice
