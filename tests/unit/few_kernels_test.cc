// SPDX-License-Identifier: Apache-2.0
// Choosing few kernels for a range of rows: close to the optimum of small cases that are tried in full,
// within the limit of units, repeatable. To see it fail: leave out the swaps of choose_few, or count choices
// instead of units.
#include <sluice/host/planner/few_kernels.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace sluice {
namespace {

CostTable random_costs(int seed, int places, int choices) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::uniform_real_distribution<double> loss(0.0, 0.1);
  CostTable costs;
  for (int p = 0; p < places; ++p) {
    std::vector<double>& us = costs.us.emplace_back();
    for (int c = 0; c < choices; ++c)
      us.push_back(random() % 9 == 0 ? kCannotServe : 10 * (1 + loss(random)));
    us[random() % us.size()] = 10;
    costs.least.push_back(10);
    costs.weights.push_back(1);
  }
  for (int c = 0; c < choices; ++c) costs.units.push_back({c});
  return costs;
}

/// Returns the mean penalty of a set of choices, given as bits. It is huge if the set cannot serve some
/// place.
double mean_penalty(const CostTable& costs, unsigned set) {
  double sum = 0;
  for (std::size_t p = 0; p < costs.us.size(); ++p) {
    double us = kCannotServe;
    for (std::size_t c = 0; c < costs.units.size(); ++c)
      if ((set >> c & 1) != 0) us = std::min(us, costs.us[p][c]);
    if (us >= kCannotServe) return 1e9;
    const double loss = us / costs.least[p] - 1, felt = loss / 0.03;
    sum += loss * (1 + felt * felt * felt);
  }
  return sum / static_cast<double>(costs.us.size());
}

unsigned set_of(const std::vector<int>& chosen) {
  unsigned set = 0;
  for (const int c : chosen) set |= 1u << c;
  return set;
}

TEST(few_kernels, is_at_the_optimum_of_most_small_cases_and_not_far_in_the_others) {
  int optimal = 0;
  constexpr int kCases = 60, kChoices = 10, kMost = 3;
  for (int seed = 0; seed < kCases; ++seed) {
    const CostTable costs = random_costs(seed, 12, kChoices);
    const FewKernels few = choose_few(costs, kMost);
    double least = 1e9;
    for (unsigned set = 1; set < 1u << kChoices; ++set)
      if (__builtin_popcount(set) <= kMost) least = std::min(least, mean_penalty(costs, set));
    if (few.chosen.empty()) {
      EXPECT_GE(least, 1e9) << seed << ": a set serves all places and none was found";
      continue;
    }
    EXPECT_LE(few.units, kMost);
    const double found = mean_penalty(costs, set_of(few.chosen));
    EXPECT_LE(found, 3 * least + 1e-3) << seed;
    optimal += found <= least + 1e-3 ? 1 : 0;
  }
  EXPECT_GE(optimal, kCases * 3 / 4);
}

TEST(few_kernels, counts_units_and_not_choices) {
  // Choices 0 and 1 share unit 9, a second kernel that adds slices. Choice 2 needs two units of its own.
  CostTable costs;
  costs.us = {{10, 11, 14}, {12, 10, 14}, {14, 14, 10}};
  costs.least = {10, 10, 10};
  costs.weights = {1, 1, 1};
  costs.units = {{0, 9}, {1, 9}, {2, 3}};
  EXPECT_EQ(choose_few(costs, 5).chosen, (std::vector<int>{0, 1, 2}));
  const FewKernels four = choose_few(costs, 4);
  EXPECT_EQ(four.units, 4);
  EXPECT_EQ(four.chosen.size(), 2u);
  EXPECT_EQ(choose_few(costs, 3).chosen, (std::vector<int>{0, 1}));
}

TEST(few_kernels, the_loss_is_of_the_chosen_and_the_worst_place_is_named) {
  CostTable costs;
  costs.us = {{10, 20}, {11, 10}, {10, 20}, {10, 20}};
  costs.least = {10, 10, 10, 10};
  costs.weights = {1, 1, 1, 1};
  costs.units = {{0}, {1}};
  const FewKernels one = choose_few(costs, 1);
  EXPECT_EQ(one.chosen, (std::vector<int>{0}));
  EXPECT_NEAR(one.mean_loss, 0.025, 1e-12);
  EXPECT_NEAR(one.worst_loss, 0.1, 1e-12);
  EXPECT_EQ(one.worst_place, 1u);
  EXPECT_EQ(choose_few(costs, 2).mean_loss, 0);
}

TEST(few_kernels, a_place_that_counts_more_is_served_first) {
  CostTable costs;
  costs.us = {{10, 10.2}, {10.2, 10}, {10.2, 10}};
  costs.least = {10, 10, 10};
  costs.weights = {1, 1, 1};
  costs.units = {{0}, {1}};
  EXPECT_EQ(choose_few(costs, 1).chosen, (std::vector<int>{1}));
  costs.weights = {5, 1, 1};
  EXPECT_EQ(choose_few(costs, 1).chosen, (std::vector<int>{0}));
}

TEST(few_kernels, stops_where_more_kernels_gain_nothing) {
  CostTable costs;
  costs.us = {{10, 10, 10}, {10, 10, 10}};
  costs.least = {10, 10};
  costs.weights = {1, 1};
  costs.units = {{0}, {1}, {2}};
  EXPECT_EQ(choose_few(costs, 3).chosen.size(), 1u);
}

TEST(few_kernels, a_place_that_nothing_serves_is_no_answer) {
  CostTable costs;
  costs.us = {{10, 10}, {kCannotServe, kCannotServe}};
  costs.least = {10, 10};
  costs.weights = {1, 1};
  costs.units = {{0}, {1}};
  EXPECT_TRUE(choose_few(costs, 2).chosen.empty());
}

}  // namespace
}  // namespace sluice
