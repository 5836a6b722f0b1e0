// SPDX-License-Identifier: Apache-2.0
// Problem files (sluice/bench/problem_list.h): parses the words of each entry by its flags. Called by
// requests.cc.
#include <CLI/CLI.hpp>
#include <algorithm>

#include <sluice/bench/problem_list.h>
#include <sluice/messages/errors.h>
#include <sluice/text.h>
#include <sluice/try.h>

#include "cli/requests.h"
#include "cli/value_checks.h"

namespace sluice::cli {
namespace {

using Words = std::vector<std::string>;

/// True for a word such as "--bias=false", which is the same as leaving the flag out. Flags that take a value
/// (--swapped) are not affected.
bool says_nothing(const CLI::App& app, const std::string& word) {
  const size_t end = word.find("=false");
  if (end == std::string::npos || end + 6 != word.size()) return false;
  const CLI::Option* option = app.get_option_no_throw(word.substr(0, end));
  return option != nullptr && option->get_expected_max() == 0;
}

Result<bench::Request> parse_entry(Words words, const RequestFlags& defaults, const std::string& where) {
  RequestFlags flags;
  flags.problem = defaults.problem;
  flags.conv.op = defaults.conv.op;
  CLI::App app;
  app.set_help_flag("");
  add_request_flags(app, flags);
  check_values(app);
  std::erase_if(words, [&](const std::string& word) { return says_nothing(app, word); });
  if (!words.empty() && words.front().front() != '-') words.insert(words.begin(), "--shape");
  words = with_long_names(std::move(words));
  std::reverse(words.begin(), words.end());  // CLI11 expects the words in reverse order
  try {
    app.parse(words);
  } catch (const CLI::Error& error) {
    return bad_argument("{}: {}", where, text_of(error, app));
  }
  const Result<std::vector<bench::Request>> one = requests_of(flags);
  if (!one) return within(where, one.error());
  return one->front();
}

}  // namespace

Result<std::vector<bench::Request>> parse_problem_list(const std::string& text,
                                                       const RequestFlags& defaults) {
  SLUICE_TAKE(const std::vector<bench::ListedProblem> entries, bench::listed_problems(text));
  std::vector<bench::Request> requests;
  for (const bench::ListedProblem& entry : entries) {
    SLUICE_TAKE(bench::Request request, parse_entry(entry.words, defaults, entry.where));
    requests.push_back(std::move(request));
  }
  return requests;
}

Result<std::vector<bench::Request>> read_problem_file(const std::string& path, const RequestFlags& defaults) {
  SLUICE_TAKE(const std::string text, bench::read_list(path));
  Result<std::vector<bench::Request>> requests = parse_problem_list(text, defaults);
  if (!requests) return within(escaped(path), requests.error());
  if (requests->empty()) return error_of(ErrorCode::io, "{} holds no problem", escaped(path));
  return requests;
}

}  // namespace sluice::cli
