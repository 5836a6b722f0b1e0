// SPDX-License-Identifier: Apache-2.0
// Numbers far outside a kernel's range are refused by every entry point before they are used. To see it fail:
// remove a limit from validate(), so that an extreme config overflows an int. Or put a wrong range into a row
// of text/fields.h, so that the planner accepts the number.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include <sluice/plan/field_checks.h>
#include <sluice/plan/text/fields.h>
#include <sluice/records.h>
#include "tests/packed_problems.h"

namespace sluice {
namespace {

constexpr int kMost = std::numeric_limits<int>::max(), kLeast = std::numeric_limits<int>::min();
/// Extreme numbers. In 32 bits, 954437177 * 9 is 1, and 1431655766 * 3 is 2.
constexpr int kExtremes[] = {kLeast, -65536, -1, 1 << 16, 1 << 20, 954437177, 1431655766, 1 << 30, kMost};

/// Tries extreme values for each number of a config, and for all numbers at once.
template <class Config>
constexpr bool refuses_extremes() {
  bool refused = true;
  for (const int value : kExtremes) {
    Config all{};
    for_each_field(all, [&](const auto& row, auto& member) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, int>) {
        Config one{};
        one.*row.member = member = value;
        refused = refused && validate(one) != nullptr;
      }
    });
    refused = refused && validate(all) != nullptr;
  }
  return refused;
}

constexpr bool refuses_extreme_dense(Schedule schedule) {
  KernelConfig good{.schedule = schedule};
  if (is_plain(schedule)) good.tile = {16, 64, 64}, good.warps = 8, good.store = StorePath::direct;
  for (const int x : kExtremes)
    for (const int y : {1, 9, 3, x}) {
      KernelConfig c[9] = {good, good, good, good, good, good, good, good, good};
      c[0].cluster = {y, x, 1}, c[1].cluster = {x, y, 1}, c[2].cluster = {1, y, x}, c[3].cluster = {x, 1, y};
      c[4].stages = x, c[5].tile.m = x, c[6].tile.n = x, c[7].warps = x, c[8].tile.k = x;
      for (const KernelConfig& one : c)
        if (validate(one) == nullptr) return false;
    }
  return true;
}

static_assert(refuses_extremes<NarrowConfig>() && refuses_extremes<WideConfig>() &&
              refuses_extremes<StripConfig>());
static_assert(refuses_extreme_dense(Schedule::ping_pong) && refuses_extreme_dense(Schedule::cooperative));
static_assert(refuses_extreme_dense(Schedule::plain) && refuses_extreme_dense(Schedule::plain_wgmma));

/// Expects a message with the value, the rule and the remedy.
void expect_told(const Error& error, const std::string& name, int value) {
  EXPECT_EQ(error.code, ErrorCode::invalid_config);
  EXPECT_NE(error.message.find(name + " = " + std::to_string(value) + " must be "), std::string::npos)
      << error.message;
  EXPECT_NE(error.message.find("; give such a number, or leave it out"), std::string::npos) << error.message;
}

/// Calls visit(row) for each override that is an integer, and returns their number.
template <class Overrides, class Visit>
int for_each_number(const Visit& visit) {
  int numbers = 0;
  const Overrides none;
  for_each_field(none, [&](const auto& row, const auto& member) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, std::optional<int>>)
      visit(row), ++numbers;
  });
  return numbers;
}

TEST(ranges, the_planner_refuses_numbers_outside_of_them) {
  const Problem problem{.m = 64, .n = 64, .k = 64};
  const int numbers = for_each_number<PlanOverrides>([&](const auto& row) {
    for (const int value : kExtremes) {
      PlanOverrides o;
      o.*row.member = value;
      const Result<Plan> plan = gemm::plan(problem, {}, o);
      if (value >= row.range.least && value <= row.range.most)
        continue;  // no overflow is possible here; the planner checks it
      ASSERT_FALSE(plan) << row.name << " = " << value;
      expect_told(plan.error(), row.name, value);
      EXPECT_FALSE(gemm::candidates(problem, {}, o));
    }
  });
  EXPECT_EQ(numbers, 10);
}

TEST(ranges, two_extents_of_a_cluster_may_not_wrap_around) {
  for (const ClusterShape& cluster : {ClusterShape{9, 954437177, 1}, ClusterShape{954437177, 1, 9},
                                      ClusterShape{1, 1431655766, 3}, ClusterShape{65536, 65536, 1}}) {
    const Result<Plan> plan = gemm::plan({.m = 64, .n = 64, .k = 64}, {}, {.cluster = cluster});
    ASSERT_FALSE(plan);
    EXPECT_NE(plan.error().message.find("must be in 1..8"), std::string::npos) << plan.error().message;
    EXPECT_STREQ(validate(KernelConfig{.cluster = cluster}), "the cluster must hold 1 to 8 CTAs");
  }
}

/// Found by tests/fuzz/c_api_fuzz.cc: with empty operands, strides may be anything, so their products must
/// not overflow.
TEST(ranges, strides_of_an_empty_product_may_be_anything) {
  constexpr i64 kFar = std::numeric_limits<i64>::max() / 4 * 3;
  Problem problem{.m = 0, .n = 64, .k = 64, .batch = 0};
  problem.d.ld = problem.d.batch_stride = kFar;
  EXPECT_TRUE(gemm::plan(problem, {}));
  EXPECT_TRUE(gemm::plan(PackedProblem{.m = 0, .n = 64, .k = 128, .ld_d = kFar}, {}));
}

TEST(ranges, the_planner_of_packed_weights_refuses_numbers_outside_of_them) {
  const PackedProblem few{.m = 16, .n = 512, .k = 2048}, many{.m = 512, .n = 512, .k = 2048};
  const PackedProblem e4m3{
      .m = 16, .n = 512, .k = 2048, .x = DType::e4m3, .weights = {.order = FragmentOrder::byte}};
  const int numbers = for_each_number<PlanOverrides>([&](const auto& row) {
    for (const int value : kExtremes)
      for (const PackedProblem& problem : {few, many, e4m3}) {
        PlanOverrides o;
        o.*row.member = value;
        const Result<Plan> plan = gemm::plan(problem, {}, o);
        ASSERT_FALSE(plan) << row.name << " = " << value;
        // Numbers that packed weights have no use for are refused whatever their value.
        if (value < row.range.least || value > row.range.most) expect_told(plan.error(), row.name, value);
      }
  });
  EXPECT_EQ(numbers, 10);
}

}  // namespace
}  // namespace sluice
