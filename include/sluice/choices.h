// SPDX-License-Identifier: Apache-2.0
// The choices that a caller may make in the planner's place (PlanOverrides), by name: for flags, forms and
// files. The library's table of fields is behind them, so a new choice needs no code in a program that lists
// them.
//   sluice::PlanOverrides overrides;
//   for (const sluice::Choice& choice : sluice::plan_choices()) std::puts(choice.help);
//   auto set = sluice::set_choice(overrides, "schedule", "ping_pong");
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/plan.h>
#include <sluice/result.h>

namespace sluice {

inline constexpr int kAnyInt = std::numeric_limits<int>::max();

/// The bounds of a number, both inclusive. most = kAnyInt: the upper bound is only the type's.
struct FieldRange {
  int least = 0, most = kAnyInt;
};
/// Returns "must be in 2..16", or "must be at least 1" if there is no upper bound.
std::string rule_of(const FieldRange& range);

/// number: a whole number in `range`. bytes: one of 64 bits. flag: true or false. name: one of `names`.
enum class ChoiceKind { number, bytes, flag, name };

struct Choice {
  const char* name = "";  // the field in PlanOverrides: "raster_group"
  const char* help = "";
  ChoiceKind kind = ChoiceKind::number;
  FieldRange range{};   // bounds of a number
  std::string names{};  // list of enumerators: "along_m, along_n"
};

/// All choices but those that have fields of their own (cluster, overlap), in the order of PlanOverrides.
const std::vector<Choice>& plan_choices();

/// Sets one choice from text: a decimal number, true or false, or an enumerator's name. A field of a cluster
/// is named "cluster_m". Error invalid_argument (nothing is set): there is no such choice, or the text breaks
/// a rule; the message says which. plan() checks ranges.
Result<void> set_choice(PlanOverrides& overrides, std::string_view name, std::string_view text);

}  // namespace sluice
