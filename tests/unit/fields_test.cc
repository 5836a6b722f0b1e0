// SPDX-License-Identifier: Apache-2.0
// The field tables: a member without a row does not compile, and every reader of fields uses them. To see it
// fail: give a row another member's name; setting each field by name then changes the wrong one. Wrong member
// counts are tested on structs made for that.
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <sluice/plan/field_checks.h>
#include <sluice/plan/text/field_text.h>
#include "tests/packed_problems.h"

namespace sluice {
namespace {

struct Two {
  int a;
  std::optional<int> b;
};
struct Three {
  int a;
  std::optional<int> b;
  Overlap c;
};
static_assert(member_count<Two>() == 2 && member_count<Three>() == 3);

}  // namespace

/// A table that lacks a member, as after a member was added to the struct only.
template <>
struct FieldsOf<Three> {
  static constexpr auto kTable = std::tuple{field("a", &Three::a), field("b", &Three::b)};
};

namespace {

static_assert(!all_have_rows<Three>, "a planted gap is not seen");

/// Returns a value that differs from the default, for a field of any type.
template <class T>
std::string other_text(const T& value) {
  if constexpr (kIsOptional<T>)
    return other_text(typename T::value_type{});
  else if constexpr (std::is_same_v<T, bool>)
    return value ? "false" : "true";
  else if constexpr (Enumerated<T>)
    return name_of(static_cast<T>(value == T{} ? 1 : 0));
  else
    return "7";
}

/// Sets each field by its name, and checks that no other field changes.
template <class T>
void expect_each_field_is_set_by_its_name() {
  T none{};
  for_each_field(none, [&](const auto& row, const auto& member) {
    using Member = std::remove_cvref_t<decltype(member)>;
    if constexpr (!HasFields<Member> && !std::is_same_v<Member, std::optional<ClusterShape>>) {
      T one{};
      ASSERT_TRUE(set_field(one, row.name, other_text(member))) << row.name;
      EXPECT_FALSE(one.*row.member == member) << row.name;
      one.*row.member = member;
      EXPECT_EQ(one, none) << row.name << " set another field too";
    }
  });
}

TEST(fields, each_is_set_by_its_name_and_no_other) {
  expect_each_field_is_set_by_its_name<Problem>();
  expect_each_field_is_set_by_its_name<WeightFormat>();
  expect_each_field_is_set_by_its_name<PlanOverrides>();
  expect_each_field_is_set_by_its_name<PlanOverrides>();
}

/// Counts the field names in the text of a value.
template <class T>
void expect_names_are_different() {
  std::set<std::string> names;
  const T none{};
  for_each_field(none, [&](const auto& row, const auto&) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " twice";
  });
}

TEST(fields, no_table_has_a_name_twice) {
  expect_names_are_different<KernelConfig>();
  expect_names_are_different<NarrowConfig>();
  expect_names_are_different<WideConfig>();
  expect_names_are_different<StripConfig>();
  expect_names_are_different<PlanOverrides>();
}

/// One row in the table is enough for a number to be a choice with a range.
TEST(fields, every_number_among_the_overrides_is_a_choice) {
  int numbers = 0;
  PlanOverrides o;
  for_each_field(o, [&](const auto& row, auto& value) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, std::optional<int>>) {
      const auto choice = std::find_if(plan_choices().begin(), plan_choices().end(),
                                       [&](const Choice& one) { return std::string(one.name) == row.name; });
      ASSERT_NE(choice, plan_choices().end()) << row.name;
      EXPECT_EQ(choice->kind, ChoiceKind::number);
      EXPECT_EQ(choice->range.least, row.range.least);
      EXPECT_EQ(choice->range.most, row.range.most);
      ASSERT_TRUE(set_choice(o, row.name, "3"));
      EXPECT_EQ(value, 3) << row.name;
      ++numbers;
    }
  });
  EXPECT_EQ(numbers, 10);
}

/// A program lists exactly the choices that the planner takes. To see it fail: drop the `names` of a choice.
TEST(choices, know_their_kind_and_their_names) {
  PlanOverrides o;
  for (const Choice& choice : plan_choices()) {
    EXPECT_STRNE(choice.help, "") << choice.name;
    EXPECT_EQ(choice.names.empty(), choice.kind != ChoiceKind::name) << choice.name;
    const std::string text = choice.kind == ChoiceKind::flag ? "true"
                             : choice.kind == ChoiceKind::name
                                 ? choice.names.substr(0, choice.names.find(','))
                                 : "8";
    EXPECT_TRUE(set_choice(o, choice.name, text)) << choice.name << " = " << text;
    EXPECT_FALSE(set_choice(o, choice.name, "no such text")) << choice.name;
  }
  EXPECT_EQ(o.swapped, true);
  EXPECT_TRUE(o.ignore_records);
  EXPECT_EQ(o.workspace_limit, 8);
  ASSERT_TRUE(set_choice(o, "cluster_m", "2"));
  EXPECT_EQ(o.cluster->m, 2);
  EXPECT_FALSE(set_choice(o, "tile_q", "2"));
}

TEST(fields, a_line_of_text_sets_several_and_fields_of_fields) {
  const Result<PlanOverrides> o =
      from_text<PlanOverrides>("tile_m=128, tile_n=256 schedule=ping_pong,cluster_m=2 swapped=false");
  ASSERT_TRUE(o) << o.error().message;
  EXPECT_EQ(*o, (PlanOverrides{.schedule = Schedule::ping_pong,
                               .tile_m = 128,
                               .tile_n = 256,
                               .cluster = ClusterShape{2, 1, 1},
                               .swapped = false}));
  Problem p;
  ASSERT_TRUE(set_field(p, "a.type", "e4m3") && set_field(p, "epilogue.bias", "column"));
  EXPECT_EQ(p.a.type, DType::e4m3);
  EXPECT_EQ(p.epilogue.bias, Bias::column);
  EXPECT_TRUE(from_text<PlanOverrides>("") && from_text<PlanOverrides>(" , "));
}

TEST(fields, what_is_wrong_is_named_with_what_it_must_be) {
  const std::pair<const char*, const char*> wrong[] = {
      {"stages=four", "stages = \"four\" must be a whole decimal number"},
      {"stages=99999999999", "stages = \"99999999999\" must be a whole decimal number that fits its type"},
      {"schedule=ping", "schedule = \"ping\" must be one of ping_pong, cooperative, plain, plain_wgmma"},
      {"swapped=1", "swapped = \"1\" must be true or false"},
      {"cluster=2x1", "cluster = \"2x1\" must be set field by field"},
      {"cluster_q=2", "\"cluster_q\" is no field; these are: schedule, tile_m"},
      {"stages", "\"stages\" must be a field and its value"},
      {"=", "\"\" is no field"}};
  for (const auto& [text, message] : wrong) {
    const Result<PlanOverrides> o = from_text<PlanOverrides>(text);
    ASSERT_FALSE(o) << text;
    EXPECT_EQ(o.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(o.error().message.find(message), 0u) << o.error().message;
  }
}

}  // namespace
}  // namespace sluice
