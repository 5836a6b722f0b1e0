// SPDX-License-Identifier: Apache-2.0
// Problem files. Each entry, a line or a JSON object, is converted to words of a command line and parsed by
// its flags, so that there is only one grammar. Called by requests.cc.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include <sluice/tools.h>
#include <sluice/try.h>

#include "bench/errors.h"
#include "cli/requests.h"
#include "cli/value_checks.h"

namespace sluice::cli {
namespace {

using Words = std::vector<std::string>;

constexpr size_t kMostProblems = 10000;   // per file; the bench's longest list has a few hundred
constexpr size_t kMostLineBytes = 16384;  // per problem; all flags together take about 1,000

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

/// Returns an error (invalid_argument) if count > most. Flags have at most 30 letters, and a problem some 40
/// flags.
Result<void> check_count(size_t count, size_t most, const std::string& what) {
  if (count <= most) return {};
  return bad_argument("{} must be at most {}, not {}: split them", what, most, count);
}

Result<std::vector<bench::Request>> parse_lines(std::string_view text, const RequestFlags& defaults) {
  std::vector<bench::Request> requests;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view all = text.substr(0, end), line = all.substr(0, all.find('#'));
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string where = fmt::format("line {}", number);
    SLUICE_TRY(check_count(line.size(), kMostLineBytes, "the bytes of " + where));
    std::istringstream stream{std::string(line)};
    Words words{std::istream_iterator<std::string>(stream), {}};
    if (words.empty()) continue;
    SLUICE_TAKE(bench::Request request, parse_entry(std::move(words), defaults, where));
    requests.push_back(std::move(request));
    SLUICE_TRY(check_count(requests.size(), kMostProblems, "the problems of a file"));
  }
  return requests;
}

/// Converts a JSON object to words of a command line.
Result<Words> words_of(const Json& object, const std::string& where) {
  if (!object.is_object())
    return bad_argument("{} is not a JSON object: write {{\"shape\": \"64x64x64\"}}", where);
  Words words;
  for (const auto& [key, value] : object.items()) {
    if (value.is_structured() || value.is_null())
      return bad_argument("{}: {} must be a number, a text, true or false", where, in_quotes(key));
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    SLUICE_TRY(check_count(key.size() + text.size(), kMostLineBytes, "the bytes of " + where));
    if (value.is_boolean()) {
      words.push_back("--" + key + "=" + text);
    } else {
      words.push_back("--" + key);
      words.push_back(text);
    }
  }
  return words;
}

Result<std::vector<bench::Request>> parse_json(std::string_view text, const RequestFlags& defaults) {
  const Result<Json> list = parse_json_text(text);
  if (!list)
    return bad_argument("the problem file {}: mend it, or write lines of flags", list.error().message);
  if (!list->is_array())
    return bad_argument("the problem file is not a JSON array of objects: put its objects between [ and ]");
  SLUICE_TRY(check_count(list->size(), kMostProblems, "the problems of a file"));
  std::vector<bench::Request> requests;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string where = fmt::format("entry {}", i);
    SLUICE_TAKE(Words words, words_of((*list)[i], where));
    SLUICE_TAKE(bench::Request request, parse_entry(std::move(words), defaults, where));
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace

Result<std::vector<bench::Request>> parse_problem_list(const std::string& text,
                                                       const RequestFlags& defaults) {
  const std::string_view list = without_byte_order_mark(text);
  const size_t first = list.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && list[first] == '[' ? parse_json(list, defaults)
                                                               : parse_lines(list, defaults);
}

Result<std::vector<bench::Request>> read_problem_file(const std::string& path, const RequestFlags& defaults) {
  SLUICE_TAKE(const std::string text, read_text_file(path, kMostJsonBytes));
  Result<std::vector<bench::Request>> requests = parse_problem_list(text, defaults);
  if (!requests) return within(escaped(path), requests.error());
  if (requests->empty()) return error_of(ErrorCode::io, "{} holds no problem", escaped(path));
  return requests;
}

}  // namespace sluice::cli
