// SPDX-License-Identifier: Apache-2.0
// Checks each flag's value before CLI11 converts it. CLI11 would read 010 as eight and 10^30 as 2^63 - 1, and
// would treat an empty text as no value. Called by main.cc and problem_list.cc.
#pragma once

#include <string>
#include <vector>

#include <sluice/choices.h>

namespace CLI {
class App;
class Error;
class Option;
}  // namespace CLI

namespace sluice::cli {

/// Adds checks to all options that `app` has so far. Whole numbers must be decimal and fit into 64 bits,
/// other numbers must be finite floats, and text must not be empty.
void check_values(CLI::App& app);

/// Adds the range check of a planner's choice (sluice/choices.h). Its message names the flag.
void check_range(CLI::Option* option, const FieldRange& range);

/// Returns "" if no comma-separated option in `words` has an empty value, else a message. CLI11 silently
/// drops empty values: "1,,2" would be two values.
std::string empty_value_problem(const CLI::App& app, const std::vector<std::string>& words);

/// Returns the words with "-m=4096" replaced by "--m=4096". CLI11 would take the value of "-m=4096" to be
/// "=4096".
std::vector<std::string> with_long_names(std::vector<std::string> words);

/// Returns the message for an exception of CLI11, in one line, escaped. If `app` lacks a flag, it names the
/// word and the most similar flag; otherwise the value and the rule.
std::string text_of(const CLI::Error& error, const CLI::App& app);

inline constexpr int kLongestHang = 86400;     // upper limit of --hang-s: a day
inline constexpr double kLongestRest = 60000;  // upper limit of --rest-ms: a minute

}  // namespace sluice::cli
