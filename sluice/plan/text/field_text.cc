// SPDX-License-Identifier: Apache-2.0
#include <sluice/plan/text/field_text.h>

#include <sluice/text.h>
#include <sluice/try.h>

namespace sluice {
namespace {

Error wrong(std::string_view name, std::string_view text, const std::string& rule) {
  return Error{ErrorCode::invalid_argument, std::string(name) + " = " + in_quotes(text) + " must be " + rule};
}

template <class T>
Result<void> set_value(T& value, std::string_view name, std::string_view text) {
  if constexpr (kIsOptional<T>) {
    return set_value(value.emplace(), name, text);
  } else if constexpr (std::is_same_v<T, bool>) {
    if (text != "true" && text != "false") return wrong(name, text, "true or false");
    value = text == "true";
    return {};
  } else if constexpr (Enumerated<T>) {
    const std::optional<T> found = enumerator_named<T>(text);
    if (!found) return wrong(name, text, "one of " + names_of<T>());
    value = *found;
    return {};
  } else if constexpr (HasFields<T>) {
    return wrong(name, text,
                 "set field by field: " + std::string(name) + "." + std::get<0>(FieldsOf<T>::kTable).name +
                     " and so on");
  } else {
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status != std::errc{} || end != text.data() + text.size())
      return wrong(name, text, "a whole decimal number that fits its type");
    return {};
  }
}

/// Returns the name within a nested field, or empty: "type" for "a.type", "m" for "cluster_m".
std::string_view name_within(const char* row, std::string_view name) {
  const std::string_view outer = row;
  const bool is_within = name.size() > outer.size() + 1 && name.starts_with(outer) &&
                         (name[outer.size()] == '.' || name[outer.size()] == '_');
  return is_within ? name.substr(outer.size() + 1) : std::string_view();
}

enum class Found { no, yes, wrong };

template <class T>
Found set_if_there(T& owner, std::string_view name, std::string_view text, Result<void>& result) {
  Found found = Found::no;
  for_each_field(owner, [&](const auto& row, auto& member) {
    using Member = std::remove_reference_t<decltype(member)>;
    if (found != Found::no) return;
    if (name == row.name) {
      result = set_value(member, name, text);
      found = result ? Found::yes : Found::wrong;
      return;
    }
    const std::string_view inner = name_within(row.name, name);
    if (inner.empty()) return;
    if constexpr (HasFields<Member>) found = set_if_there(member, inner, text, result);
    if constexpr (kIsOptional<Member>) {
      using Inner = typename Member::value_type;
      if constexpr (HasFields<Inner>) {
        Inner whole = member.value_or(Inner{});
        found = set_if_there(whole, inner, text, result);
        if (found == Found::yes) member = whole;
      }
    }
  });
  return found;
}

template <class T>
std::string field_names() {
  std::string names;
  const T value{};
  for_each_field(value, [&](const auto& row, const auto&) {
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  });
  return names;
}

}  // namespace

std::string rule_of(const FieldRange& range) {
  const std::string least = std::to_string(range.least);
  return range.most == kAnyInt ? "must be at least " + least
                               : "must be in " + least + ".." + std::to_string(range.most);
}

template <HasFields T>
Result<void> set_field(T& value, std::string_view name, std::string_view text) {
  Result<void> result;
  if (set_if_there(value, name, text, result) == Found::no)
    return Error{ErrorCode::invalid_argument,
                 in_quotes(name) + " is no field; these are: " + field_names<T>()};
  return result;
}

template <HasFields T>
Result<T> from_text(std::string_view text) {
  constexpr std::string_view kBetween = ", \t\n";
  T value{};
  for (std::size_t at = text.find_first_not_of(kBetween); at < text.size();
       at = text.find_first_not_of(kBetween, at)) {
    const std::size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos)
      return Error{ErrorCode::invalid_argument,
                   in_quotes(word) + " must be a field and its value, name=value"};
    SLUICE_TRY(set_field(value, word.substr(0, equals), word.substr(equals + 1)));
    at = end;
  }
  return value;
}

#define SLUICE_FIELDS_FROM_TEXT(T)                                            \
  template Result<void> set_field<T>(T&, std::string_view, std::string_view); \
  template Result<T> from_text<T>(std::string_view)
SLUICE_FIELDS_FROM_TEXT(Problem);
SLUICE_FIELDS_FROM_TEXT(PlanOverrides);
SLUICE_FIELDS_FROM_TEXT(WeightFormat);
#undef SLUICE_FIELDS_FROM_TEXT

}  // namespace sluice
