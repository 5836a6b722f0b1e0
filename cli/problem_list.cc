// SPDX-License-Identifier: Apache-2.0
// Problem files: every entry, line or JSON object, becomes the words of a command line and goes through the
// flags of a command line, so that there is one grammar. Called by requests.cc.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "cli/mixed_flags.h"
#include "cli/value_checks.h"

namespace sluice::cli {
namespace {

using Words = std::vector<std::string>;

/// "--bias=false" of a flag says that it was not given; what takes a value (--swapped) keeps it.
bool says_nothing(const CLI::App& app, const std::string& word) {
  const size_t end = word.find("=false");
  if (end == std::string::npos || end + 6 != word.size()) return false;
  const CLI::Option* option = app.get_option_no_throw(word.substr(0, end));
  return option != nullptr && option->get_expected_max() == 0;
}

Result<AnyRequest> parse_entry(Words words, const std::string& where) {
  RequestFlags flags;
  MixedFlags mixed;
  CLI::App app;
  app.set_help_flag("");
  add_request_flags(app, flags);
  add_mixed_flags(app, mixed);
  check_values(app);
  std::erase_if(words, [&](const std::string& word) { return says_nothing(app, word); });
  if (!words.empty() && words.front().front() != '-') words.insert(words.begin(), "--shape");
  std::reverse(words.begin(), words.end());  // CLI11 takes them last first
  try {
    app.parse(words);
  } catch (const CLI::Error& error) {
    return Error{ErrorCode::invalid_argument, fmt::format("{}: {}", where, text_of(error))};
  }
  const Result<std::vector<AnyRequest>> one = requests_of(flags, mixed);
  if (!one) return Error{one.error().code, fmt::format("{}: {}", where, one.error().message)};
  return one->front();
}

Result<std::vector<AnyRequest>> parse_lines(const std::string& text) {
  std::vector<AnyRequest> requests;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    line.resize(std::min(line.size(), line.find('#')));
    std::istringstream stream(line);
    Words words{std::istream_iterator<std::string>(stream), {}};
    if (words.empty()) continue;
    Result<AnyRequest> request = parse_entry(std::move(words), fmt::format("line {}", number));
    if (!request) return request.error();
    requests.push_back(*request);
  }
  return requests;
}

Result<std::vector<AnyRequest>> parse_json(const std::string& text) {
  const nlohmann::json list = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array())
    return Error{ErrorCode::invalid_argument, "the problem file is not a JSON array of objects"};
  std::vector<AnyRequest> requests;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("entry {}", i);
    if (!list[i].is_object())
      return Error{ErrorCode::invalid_argument, fmt::format("{} is not a JSON object", where)};
    Words words;
    for (const auto& [key, value] : list[i].items()) {
      const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      if (value.is_boolean()) {
        words.push_back("--" + key + "=" + text);
      } else {
        words.push_back("--" + key);
        words.push_back(text);
      }
    }
    Result<AnyRequest> request = parse_entry(std::move(words), where);
    if (!request) return request.error();
    requests.push_back(*request);
  }
  return requests;
}

}  // namespace

Result<std::vector<AnyRequest>> parse_problem_list(const std::string& text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // that some editors put in front of UTF-8
  if (text.starts_with(kByteOrderMark)) return parse_problem_list(text.substr(kByteOrderMark.size()));
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '[' ? parse_json(text) : parse_lines(text);
}

Result<std::vector<AnyRequest>> read_problem_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file || std::filesystem::is_directory(path))
    return Error{ErrorCode::io, fmt::format("{} cannot be read", path)};
  Result<std::vector<AnyRequest>> requests = parse_problem_list(text.str());
  if (!requests) return Error{requests.error().code, fmt::format("{}: {}", path, requests.error().message)};
  if (requests->empty()) return Error{ErrorCode::io, fmt::format("{} holds no problem", path)};
  return requests;
}

}  // namespace sluice::cli
