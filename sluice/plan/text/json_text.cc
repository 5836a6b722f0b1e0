// SPDX-License-Identifier: Apache-2.0
// One pass over the bytes measures the depth and counts members, before anything is built.
#include <sluice/plan/text/json_text.h>

#include <nlohmann/json.hpp>

#include <set>
#include <string>
#include <vector>

#include <sluice/text.h>

namespace sluice {
namespace {

struct Outline {
  bool deep = false;
  std::size_t members = 0;  // members of all objects: the number of colons outside strings
};

Outline outline_of(std::string_view text) {
  Outline outline;
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size() && !outline.deep; ++i) {
    const char c = text[i];
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\') ++i;
    if (in_string) continue;
    outline.members += c == ':' ? 1 : 0;
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    outline.deep = depth > kMostJsonDepth;
  }
  return outline;
}

/// Counts the members of all objects. Recurses at most kMostJsonDepth deep.
std::size_t members_of(const Json& json) {
  std::size_t count = json.is_object() ? json.size() : 0;
  if (json.is_structured())
    for (const Json& child : json) count += members_of(child);
  return count;
}

/// Returns the first duplicate key of a text that is valid and has one.
std::string first_double_key(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  std::string twice;
  const auto visit = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && twice.empty() &&
        !keys.back().insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  const Json ignored = Json::parse(text, visit, /*allow_exceptions=*/false);
  return twice;
}

Error refused(const std::string& why) {
  return {ErrorCode::invalid_argument, why};
}

}  // namespace

Result<Json> parse_json_text(std::string_view text) {
  if (text.size() > kMostJsonBytes)
    return refused("has " + std::to_string(text.size()) + " bytes and must have at most " +
                   std::to_string(kMostJsonBytes));
  const Outline outline = outline_of(text);
  if (outline.deep)
    return refused("is nested deeper than the " + std::to_string(kMostJsonDepth) + " levels allowed");
  try {
    Json json = Json::parse(text);
    if (members_of(json) != outline.members)
      return refused("has the key " + in_quotes(first_double_key(text)) + " twice in one object");
    return json;
  } catch (const Json::parse_error& error) {
    return refused("is not JSON from byte " + std::to_string(error.byte) + " on");
  } catch (const Json::exception&) {  // a number outside double's range
    return refused("has a number outside of the range of a double");
  }
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

}  // namespace sluice
