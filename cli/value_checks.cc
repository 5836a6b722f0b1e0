// SPDX-License-Identifier: Apache-2.0
// CLI11 only tells the type of an option's value by name (INT, UINT, FLOAT, BOOLEAN, TEXT). An int and an i64
// have the same name; they differ only when the conversion fails.
#include "cli/value_checks.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>

#include <sluice/spec/base.h>
#include <sluice/text.h>

#include "cli/nearest.h"

namespace sluice::cli {
namespace {

/// Returns "" if `text` is a valid T, else a message. `range` describes the values of T.
template <class T>
std::string whole_number_problem(const std::string& text, const char* range) {
  const size_t digits = text.find_first_not_of("+-");
  if (digits != std::string::npos && text[digits] == '0' && text.size() > digits + 1)
    return fmt::format("{} must be a decimal number without leading zeros", escaped(text));
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* end = text.data() + text.size();
  i64 any = 0;
  const auto [stop, wrong] = std::from_chars(begin, end, any);
  if (wrong == std::errc::invalid_argument || stop != end)
    return fmt::format("{} must be a whole decimal number", in_quotes(text));
  T value = 0;
  const auto [unused, misfit] = std::from_chars(begin, end, value);
  return misfit == std::errc{} ? std::string() : fmt::format("{} must be in {}", escaped(text), range);
}

std::string signed_problem(const std::string& text) {
  return whole_number_problem<i64>(text, "-2^63..2^63-1");
}
std::string unsigned_problem(const std::string& text) {
  return whole_number_problem<u64>(text, "0..2^64-1");
}

std::string float_problem(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size())
    return fmt::format("{} must be a number", in_quotes(text));
  if (std::isfinite(value) && std::abs(value) <= std::numeric_limits<float>::max()) return {};
  return fmt::format("{} must be a finite float, of at most 3.4e38", escaped(text));
}

std::string bool_problem(const std::string& text) {
  constexpr std::array kWords = {"true", "false", "1", "0", "yes", "no", "on", "off"};
  if (std::find(kWords.begin(), kWords.end(), CLI::detail::to_lower(text)) != kWords.end()) return {};
  return fmt::format("{} must be true or false", in_quotes(text));
}

std::string text_problem(const std::string& text) {
  return text.empty() ? "its text must not be empty: give a value, or leave the flag out" : std::string();
}

}  // namespace

void check_values(CLI::App& app) {
  const struct {
    const char* type;
    std::string (*problem)(const std::string&);
  } checks[] = {{"INT", signed_problem},
                {"UINT", unsigned_problem},
                {"FLOAT", float_problem},
                {"BOOLEAN", bool_problem},
                {"TEXT", text_problem}};
  for (CLI::Option* option : app.get_options())
    for (const auto& [type, problem] : checks)
      if (option->get_expected_max() > 0 && option->get_type_name().starts_with(type))
        option->check(CLI::Validator(problem, "", ""));
}

void check_range(CLI::Option* option, const FieldRange& range) {
  option->check(CLI::Validator(
      [range](const std::string& text) -> std::string {
        i64 value = 0;
        const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (wrong == std::errc::invalid_argument || end != text.data() + text.size()) return {};
        const bool fits = wrong == std::errc{} && value >= range.least && value <= range.most;
        return fits ? std::string() : fmt::format("{} {}", escaped(text), rule_of(range));
      },
      "", ""));
}

std::string empty_value_problem(const CLI::App& app, const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    const CLI::Option* option = name.starts_with("--") ? app.get_option_no_throw(name) : nullptr;
    if (option == nullptr || option->get_delimiter() != ',') continue;
    const std::string value = equals != std::string::npos ? words[i].substr(equals + 1)
                              : i + 1 < words.size()      ? words[i + 1]
                                                          : std::string();
    if (value.starts_with(',') || value.ends_with(',') || value.find(",,") != std::string::npos)
      return fmt::format("{} {} has an empty value: write a value on both sides of each comma", name,
                         in_quotes(value));
  }
  return {};
}

std::vector<std::string> with_long_names(std::vector<std::string> words) {
  for (std::string& word : words)
    if (word.size() > 2 && word[0] == '-' && word[2] == '=' &&
        std::string_view("mnk").find(word[1]) != std::string_view::npos)
      word.insert(0, "-");
  return words;
}

namespace {

/// Names of the flags of `app` and of the verb that was given, without leading dashes.
std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  for (const CLI::App* verb : app.get_subcommands()) {
    const std::vector<std::string> more = flag_names(*verb);
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

std::string no_such_flag(const std::string& word, const CLI::App& app) {
  const std::string name = word.substr(0, word.find('='));
  const std::string bare = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  const std::string meant = nearest(bare, flag_names(app));
  return fmt::format("there is no flag {}: {}", in_quotes(word),
                     meant.empty() ? "leave it out" : fmt::format("did you mean --{}?", meant));
}

}  // namespace

std::string text_of(const CLI::Error& error, const CLI::App& app) {
  // Words that no option accepted, in their order. CLI11 itself would report them after other errors, and in
  // reverse.
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  const auto flag = std::find_if(rest.begin(), rest.end(), [](const std::string& word) {
    return word.size() > 1 && word.front() == '-';
  });
  if (flag != rest.end()) return no_such_flag(*flag, app);
  if (!rest.empty()) return fmt::format("{} belongs to no flag: leave it out", in_quotes(rest.front()));
  const std::string text = one_line(error.what()), start = "Could not convert: ";
  // check_values() has accepted the text as a whole number, so it only is too large for an int.
  return text.starts_with(start) ? text.substr(start.size()) + " must be in -2^31..2^31-1" : text;
}

}  // namespace sluice::cli
