// SPDX-License-Identifier: Apache-2.0
// The search of the chain tuner with times that are made up. How this can fail: with the incumbent's
// times of earlier races in the report, a clock that slows down looks like a loss. With an error taken for no
// gain, a lost GPU ends in a tuned chain.
#include <sluice/chain/tuning/search.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace sluice::tuning {
namespace {

/// Returns a kernel that is identified by a number.
StepKernel kernel(int number) {
  TunedChoice choice{};
  choice.raster_group = number;
  return choice;
}
int number_of(const TunedStep& choice) {
  return choice.kernel ? choice.kernel->raster_group : 0;
}

class FakeTimer final : public ChainTimer {
 public:
  explicit FakeTimer(std::function<double(const LayerChoice&)> us) : us_(std::move(us)) {}

  double now_s() override { return now; }
  void expect(std::span<const Expected> next) override { expected += next.size(); }
  Result<Raced> race(const LayerChoice& incumbent, const LayerChoice& candidate, int) override {
    ++races;
    now += second_a_race;
    slowness *= slower_a_race;
    if (const std::optional<Error> error = refuses(candidate)) return *error;
    const auto spread = [&](const LayerChoice& choices) {
      const double us = us_(choices) * slowness;
      return Quantiles{us, us, us};
    };
    return Raced{spread(incumbent), spread(candidate)};
  }

  Result<void> check(const LayerChoice& candidate) override {
    ++checks;
    if (const std::optional<Error> error = finds_wrong(candidate)) return *error;
    return {};
  }

  double now = 0, second_a_race = 0, slowness = 1, slower_a_race = 1;
  int races = 0, checks = 0;
  size_t expected = 0;
  std::function<std::optional<Error>(const LayerChoice&)> refuses = [](const LayerChoice&) {
    return std::optional<Error>();
  };
  std::function<std::optional<Error>(const LayerChoice&)> finds_wrong = refuses;

 private:
  std::function<double(const LayerChoice&)> us_;
};

/// Returns a search space of products with some kernels each, of which the first is the fastest alone, and
/// companions between them. Later products have more weights.
SearchSpace space(size_t products, size_t companions = 0, int kernels_each = 5) {
  SearchSpace made;
  for (size_t step = 0; step < products + companions; ++step) {
    made.names.push_back("step " + std::to_string(step));
    made.weight_bytes.push_back(static_cast<i64>(step));
    StepKernels kernels;
    for (int number = 1; number <= kernels_each && step < products; ++number)
      kernels.all.push_back(kernel(number));
    made.alone.push_back({.kernel = kernels.all.empty() ? StepKernel() : kernels.all[0]});
    made.kernels.push_back(std::move(kernels));
  }
  made.asked = made.planned = made.alone;
  return made;
}

const AxisGain& axis(const Found& found, const std::string& name) {
  for (const AxisGain& each : found.axes)
    if (each.name == name) return each;
  ADD_FAILURE() << "no axis " << name;
  return found.axes.front();
}

TEST(chain_search, a_kernel_of_each_product_that_gains_is_found) {
  FakeTimer timer([](const LayerChoice& choices) {
    return 100.0 - 5 * (number_of(choices[1]) == 3) - 5 * (number_of(choices[2]) == 4);
  });
  const Result<Found> found = search_chain(timer, space(4), {.budget_s = 1e9});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(number_of(found->choices[1]), 3);
  EXPECT_EQ(number_of(found->choices[2]), 4);
  EXPECT_EQ(found->kept(), 2);
  EXPECT_EQ(found->confirmed.incumbent.median, 100);
  EXPECT_EQ(found->confirmed.candidate.median, 90);
  EXPECT_EQ(timer.expected, 4u * 2 + 4u * 5) << "kernels are compiled side by side";
}

TEST(chain_search, a_change_with_other_results_is_refused_however_fast_it_is) {
  FakeTimer timer([](const LayerChoice& choices) { return number_of(choices[0]) == 2 ? 50.0 : 100.0; });
  timer.finds_wrong = [](const LayerChoice& choices) {
    return number_of(choices[0]) == 2 ? std::optional(Error{ErrorCode::internal, "D differs"}) : std::nullopt;
  };
  const Result<Found> found = search_chain(timer, space(2), {.budget_s = 1e9});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->kept(), 0);
  EXPECT_EQ(found->choices, space(2).alone);
  EXPECT_GT(found->refused, 0);
  EXPECT_NE(found->why_refused.find("D differs"), std::string::npos) << found->why_refused;
  timer.finds_wrong = [](const LayerChoice&) { return std::optional(Error{ErrorCode::driver, "lost"}); };
  EXPECT_FALSE(search_chain(timer, space(2), {.budget_s = 1e9})) << "a lost GPU ends the search";
}

TEST(chain_search, a_spacing_of_one_step_is_found) {
  FakeTimer timer([](const LayerChoice& choices) {
    double us = 100;
    for (const TunedStep& choice : choices) us -= choice.overlap.wait == Wait::weights_first ? 1 : 0;
    return choices[0].overlap.spacing == Spacing::registers &&
                   choices[1].overlap.spacing != Spacing::registers
               ? us - 5
               : us;
  });
  const Result<Found> found = search_chain(timer, space(2, 1), {.budget_s = 1e9});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->choices[0].overlap.spacing, Spacing::registers);
  EXPECT_EQ(axis(*found, "overlap of all").kept, 1);
}

TEST(chain_search, noise_is_no_gain_and_every_axis_is_walked) {
  FakeTimer timer([](const LayerChoice& choices) { return number_of(choices[0]) == 2 ? 99.7 : 100.0; });
  const Result<Found> found = search_chain(timer, space(2), {.budget_s = 1e9});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kept(), 0);
  EXPECT_EQ(found->choices, space(2).alone);
  for (const char* name : {"overlap of all", "first kernels", "wait and trigger", "hand-off and prefetch"})
    EXPECT_GT(axis(*found, name).tried, 0) << name;
  EXPECT_EQ(found->axes.size(), 12u);
}

/// A short time budget is spent on the first kernels of the steps with the most weights.
TEST(chain_search, axes_of_all_steps_are_walked_without_a_budget_and_most_weights_come_first) {
  std::vector<std::string> axes, kept;
  FakeTimer timer([](const LayerChoice& choices) {
    double us = 100;
    for (const TunedStep& choice : choices) us -= choice.overlap.trigger == Trigger::after_loads ? 5 : 0;
    return us - (number_of(choices[2]) == 2 ? 10 : 0);
  });
  const auto log = [&](const Trial& trial) {
    axes.push_back(trial.axis);
    if (trial.kept) kept.push_back(trial.axis + ", " + trial.what);
    EXPECT_EQ(trial.choices.size(), 3u);
  };
  const Result<Found> none = search_chain(timer, space(3), {.log = log});
  ASSERT_TRUE(none);
  for (const std::string& axis : axes) EXPECT_EQ(axis.find("kernels", 1), std::string::npos) << axis;
  EXPECT_EQ(none->kept(), 0) << "triggers of steps that do not overlap stay";
  timer.second_a_race = 1;
  timer.now = 0;
  const Result<Found> some = search_chain(timer, space(3), {.budget_s = timer.races + 4.0, .log = log});
  ASSERT_TRUE(some);
  EXPECT_EQ(kept, std::vector<std::string>{"first kernels, step 2"});
}

/// Whatever overlap the caller asks for, the guard also times the planner's overlap, and hand-offs at all
/// steps.
TEST(chain_search, what_is_planned_and_hand_offs_of_all_are_timed_without_a_budget) {
  FakeTimer timer([](const LayerChoice& choices) {
    double us = 100;
    for (const TunedStep& choice : choices)
      us -= (number_of(choice) == 3 ? 4 : 0) + (choice.hand_off_bytes == 2 << 20 ? 1 : 0);
    return us;
  });
  SearchSpace made = space(2);
  for (TunedStep& choice : made.planned) choice.kernel = kernel(3);
  const Result<Found> found = search_chain(timer, made, {});
  ASSERT_TRUE(found);
  EXPECT_EQ(axis(*found, "as asked").kept, 1);
  EXPECT_EQ(axis(*found, "hand-off of all").kept, 1);
  EXPECT_EQ(number_of(found->choices[1]), 3);
  EXPECT_EQ(found->confirmed.candidate.median, 90);
}

TEST(chain_search, kernels_far_down_the_ranking_come_after_all_first_ones) {
  FakeTimer timer([](const LayerChoice& choices) { return number_of(choices[0]) == 7 ? 90.0 : 100.0; });
  std::vector<std::string> axes;
  const Result<Found> found =
      search_chain(timer, space(2, 0, 7),
                   {.budget_s = 1e9, .log = [&](const Trial& trial) { axes.push_back(trial.axis); }});
  ASSERT_TRUE(found);
  EXPECT_EQ(number_of(found->choices[0]), 7);
  EXPECT_EQ(axis(*found, "kernel").kept, 1);
  EXPECT_LT(std::find(axes.rbegin(), axes.rend(), "kernel"),
            std::find(axes.rbegin(), axes.rend(), "first kernels"));
}

TEST(chain_search, a_clock_that_slows_down_is_no_loss) {
  FakeTimer timer([](const LayerChoice& choices) { return number_of(choices[0]) == 4 ? 80.0 : 100.0; });
  timer.slower_a_race = 1.01;
  const Result<Found> found = search_chain(timer, space(2), {.budget_s = 1e9});
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->confirmed.incumbent.median / found->confirmed.candidate.median, 1.25, 1e-9)
      << "both of one race";
  EXPECT_NEAR(axis(*found, "first kernels").gain, 1.25, 1e-9);
}

TEST(chain_search, a_lost_gpu_ends_the_search_and_a_refusal_is_counted) {
  FakeTimer timer([](const LayerChoice&) { return 100.0; });
  timer.refuses = [](const LayerChoice& choices) -> std::optional<Error> {
    if (number_of(choices[1]) == 5) return Error{ErrorCode::invalid_config, "five does not fit"};
    return std::nullopt;
  };
  const Result<Found> found = search_chain(timer, space(2), {.budget_s = 1e9});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->refused, 1) << "what cannot be made is in no pair";
  EXPECT_EQ(found->why_refused, "first kernels, step 1: five does not fit");
  timer.refuses = [](const LayerChoice& choices) -> std::optional<Error> {
    if (number_of(choices[1]) == 5) return Error{ErrorCode::driver, "out of memory"};
    return std::nullopt;
  };
  const Result<Found> lost = search_chain(timer, space(2), {.budget_s = 1e9});
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, ErrorCode::driver);
  EXPECT_EQ(lost.error().message, "step 1: out of memory");
}

TEST(chain_search, nothing_but_the_confirmation_is_timed_after_the_budget) {
  FakeTimer timer([](const LayerChoice&) { return 100.0; });
  timer.second_a_race = 1;
  const Result<Found> found = search_chain(timer, space(4), {.budget_s = 20});
  ASSERT_TRUE(found);
  EXPECT_LE(timer.races, 20);
  EXPECT_EQ(found->confirmed.incumbent.median, 100);
  EXPECT_EQ(found->confirmed.candidate.median, 100);
}

/// An overlap that was turned on for a gain is turned off again when that gain has disappeared.
TEST(chain_search, overlaps_that_gain_nothing_are_taken_off) {
  FakeTimer timer([](const LayerChoice& choices) {
    for (const TunedStep& choice : choices)
      if (choice.overlap.wait != Wait::none) return 90.0;
    return 100.0;
  });
  const Result<Found> found = search_chain(timer, space(3), {.budget_s = 1e9});
  ASSERT_TRUE(found);
  int waiting = 0;
  for (const TunedStep& choice : found->choices) waiting += choice.overlap.wait != Wait::none;
  EXPECT_EQ(waiting, 1);
  EXPECT_EQ(axis(*found, "overlap taken off").kept, 2);
}

}  // namespace
}  // namespace sluice::tuning
