// SPDX-License-Identifier: Apache-2.0
#include <sluice/bench/problem_list.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include <sluice/messages/errors.h>
#include <sluice/plan/text/json_text.h>
#include <sluice/run/text_file.h>
#include <sluice/text.h>
#include <sluice/try.h>

namespace sluice::bench {
namespace {

using Words = std::vector<std::string>;

constexpr size_t kMostProblems = 10000;   // per file; the bench's longest list has a few hundred
constexpr size_t kMostLineBytes = 16384;  // per problem; all flags together take about 1,000

/// Returns an error (invalid_argument) if count > most. Flags have at most 30 letters, and a problem some 40
/// flags.
Result<void> check_count(size_t count, size_t most, const std::string& what) {
  if (count <= most) return {};
  return bad_argument("{} must be at most {}, not {}: split them", what, most, count);
}

Result<std::vector<ListedProblem>> parse_lines(std::string_view text) {
  std::vector<ListedProblem> entries;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view all = text.substr(0, end), line = all.substr(0, all.find('#'));
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string where = fmt::format("line {}", number);
    SLUICE_TRY(check_count(line.size(), kMostLineBytes, "the bytes of " + where));
    std::istringstream stream{std::string(line)};
    Words words{std::istream_iterator<std::string>(stream), {}};
    if (words.empty()) continue;
    entries.push_back({where, std::move(words)});
    SLUICE_TRY(check_count(entries.size(), kMostProblems, "the problems of a file"));
  }
  return entries;
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

Result<std::vector<ListedProblem>> parse_json(std::string_view text) {
  const Result<Json> list = parse_json_text(text);
  if (!list)
    return bad_argument("the problem file {}: mend it, or write lines of flags", list.error().message);
  if (!list->is_array())
    return bad_argument("the problem file is not a JSON array of objects: put its objects between [ and ]");
  SLUICE_TRY(check_count(list->size(), kMostProblems, "the problems of a file"));
  std::vector<ListedProblem> entries;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string where = fmt::format("entry {}", i);
    SLUICE_TAKE(Words words, words_of((*list)[i], where));
    entries.push_back({where, std::move(words)});
  }
  return entries;
}

}  // namespace

Result<std::vector<ListedProblem>> listed_problems(std::string_view text) {
  const std::string_view list = without_byte_order_mark(text);
  const size_t first = list.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && list[first] == '[' ? parse_json(list) : parse_lines(list);
}

Result<std::string> read_list(const std::string& path) {
  return read_text_file(path, kMostJsonBytes);
}

}  // namespace sluice::bench
