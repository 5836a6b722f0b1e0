// SPDX-License-Identifier: Apache-2.0
// Checks each flag's value by its kind before CLI11 converts it. CLI11 reads 010 as eight and 10^30 as 2^63 -
// 1, and takes an empty text for none. Called by main.cc and problem_list.cc.
#pragma once

#include <string>
#include <vector>

#include <sluice/tools.h>

namespace CLI {
class App;
class Error;
class Option;
}  // namespace CLI

namespace sluice::cli {

/// Adds the checks to all options that the app has so far: whole numbers are decimal and fit into 64 bits,
/// others are finite floats, no text is empty.
void check_values(CLI::App& app);

/// Adds the range of a planner override (host/planner/field_checks.h); its message names the flag.
void check_range(CLI::Option* option, const FieldRange& range);

/// Returns "" if no value of a comma-separated option in `words` is empty, else a message. CLI11 drops empty
/// values silently: "1,,2" would be two values.
std::string empty_value_problem(const CLI::App& app, const std::vector<std::string>& words);

/// The words with "-m=4096" as "--m=4096", as CLI11 takes "=4096" for the value of the former.
std::vector<std::string> with_long_names(std::vector<std::string> words);

/// The message for an exception of CLI11: the first word that `app` has no flag for, and the flag that is
/// nearest to it, else value and rule. One line, escaped.
std::string text_of(const CLI::Error& error, const CLI::App& app);

inline constexpr int kLongestHang = 86400;     // --hang-s: a day
inline constexpr double kLongestRest = 60000;  // --rest-ms: a minute

}  // namespace sluice::cli
