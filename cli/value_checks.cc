// SPDX-License-Identifier: Apache-2.0
// CLI11 names the type of an option's value (INT, UINT, FLOAT, BOOLEAN, TEXT) and no more: an int and an i64
// are told apart when the conversion fails.
#include "cli/value_checks.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include <sluice/spec/base.h>

namespace sluice::cli {
namespace {

/// "" if `text` is a T; `range` is T's.
template <class T>
std::string whole_number_problem(const std::string& text, const char* range) {
  const size_t digits = text.find_first_not_of("+-");
  if (digits != std::string::npos && text[digits] == '0' && text.size() > digits + 1)
    return fmt::format("{} must be a decimal number without leading zeros", text);
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* end = text.data() + text.size();
  i64 any = 0;
  const auto [stop, wrong] = std::from_chars(begin, end, any);
  if (wrong == std::errc::invalid_argument || stop != end)
    return fmt::format("\"{}\" must be a whole decimal number", text);
  T value = 0;
  const auto [unused, misfit] = std::from_chars(begin, end, value);
  return misfit == std::errc{} ? std::string() : fmt::format("{} must be in {}", text, range);
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
  if (text.empty() || end != text.c_str() + text.size()) return fmt::format("\"{}\" must be a number", text);
  if (std::isfinite(value) && std::abs(value) <= std::numeric_limits<float>::max()) return {};
  return fmt::format("{} must be a finite float, of at most 3.4e38", text);
}

std::string bool_problem(const std::string& text) {
  constexpr std::array kWords = {"true", "false", "1", "0", "yes", "no", "on", "off"};
  if (std::find(kWords.begin(), kWords.end(), CLI::detail::to_lower(text)) != kWords.end()) return {};
  return fmt::format("\"{}\" must be true or false", text);
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

std::string text_of(const CLI::Error& error) {
  const std::string text = error.what(), start = "Could not convert: ";
  // What check_values let through is a whole number, for an int.
  return text.starts_with(start) ? text.substr(start.size()) + " must be in -2^31..2^31-1" : text;
}

}  // namespace sluice::cli
