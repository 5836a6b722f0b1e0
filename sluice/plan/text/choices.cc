// SPDX-License-Identifier: Apache-2.0
// Reads the rows of PlanOverrides in fields.h.
#include <sluice/choices.h>

#include <sluice/plan/text/field_text.h>
#include <sluice/try.h>

namespace sluice {
namespace {

template <class T>
struct Held {
  using Type = T;
};
template <class T>
struct Held<std::optional<T>> {
  using Type = T;
};

std::vector<Choice> choices() {
  std::vector<Choice> all;
  const PlanOverrides none{};
  for_each_field(none, [&](const auto& row, const auto& member) {
    using Value = typename Held<std::remove_cvref_t<decltype(member)>>::Type;
    Choice choice{.name = row.name, .help = row.help, .range = row.range};
    if constexpr (HasFields<Value>) return;
    if constexpr (std::is_same_v<Value, i64>) choice.kind = ChoiceKind::bytes;
    if constexpr (std::is_same_v<Value, bool>) choice.kind = ChoiceKind::flag;
    if constexpr (Enumerated<Value>) {
      choice.kind = ChoiceKind::name;
      choice.names = names_of<Value>();
    }
    all.push_back(std::move(choice));
  });
  return all;
}

}  // namespace

const std::vector<Choice>& plan_choices() {
  static const std::vector<Choice> all = choices();
  return all;
}

Result<void> set_choice(PlanOverrides& overrides, std::string_view name, std::string_view text) {
  PlanOverrides changed = overrides;
  SLUICE_TRY(set_field(changed, name, text));
  overrides = changed;
  return {};
}

}  // namespace sluice
