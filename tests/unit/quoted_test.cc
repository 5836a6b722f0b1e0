// SPDX-License-Identifier: Apache-2.0
// Callers' text in messages: one line of limited length, without bytes that control a terminal. Also the
// limits of the parsers. To see it fail: let is_control() return false for DEL, C1 controls or direction
// marks.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include <sluice/plan/records/record.h>
#include <sluice/plan/text/json_text.h>
#include <sluice/run/text_file.h>
#include <sluice/text.h>

#include "cache_fake.h"
#include "cli/requests.h"

namespace sluice {
namespace {

TEST(quoted, escapes_what_is_not_printable) {
  EXPECT_EQ(in_quotes("16x16"), "\"16x16\"");
  EXPECT_EQ(in_quotes("a\nb\tc\r"), "\"a\\nb\\tc\\r\"");
  EXPECT_EQ(in_quotes("\x1b[31m"), "\"\\x1b[31m\"");
  EXPECT_EQ(in_quotes(std::string("a\0b", 3)), "\"a\\x00b\"");
  EXPECT_EQ(in_quotes("say \"x\" \\"), "\"say \\\"x\\\" \\\\\"");
  EXPECT_EQ(escaped("\x7f \xc2\x9b \xe2\x80\xae"), "\\x7f \\xc2\\x9b \\xe2\\x80\\xae");
  EXPECT_EQ(escaped("Größe €"), "Größe €");
}

TEST(quoted, escapes_what_is_no_utf8) {
  EXPECT_EQ(escaped("\xff"), "\\xff");
  EXPECT_EQ(escaped("\xc0\xaf"), "\\xc0\\xaf") << "longer than it needs to be";
  EXPECT_EQ(escaped("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half of a surrogate";
  EXPECT_EQ(escaped("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "past U+10FFFF";
  EXPECT_EQ(escaped("\xe2\x82"), "\\xe2\\x82") << "cut short";
}

TEST(quoted, cuts_what_is_long_and_tells_its_length) {
  const std::string text = in_quotes(std::string(100 << 20, 'a'));
  EXPECT_LT(text.size(), 200u);
  EXPECT_NE(text.find("...\" (cut: it has 104857600 bytes)"), std::string::npos) << text;
  EXPECT_EQ(escaped("ab€cd", 4), "ab... (cut: it has 7 bytes)") << "between characters";
}

TEST(quoted, a_finished_message_keeps_its_lines_and_backslashes) {
  EXPECT_EQ(printable("log:\n\tx \\ \x1b"), "log:\n\tx \\ \\x1b");
  EXPECT_EQ(one_line("a\\n\nb"), "a\\n\\nb");
  EXPECT_LT(printable(std::string(1 << 20, 'x')).size(), kMostMessage + 100);
}

std::string json_problem(const std::string& text) {
  const Result<Json> json = parse_json_text(text);
  return json ? "" : json.error().message;
}

TEST(json_text, has_bounds) {
  EXPECT_EQ(json_problem(R"({"a": [1, {"b:": ":"}]})"), "");
  EXPECT_EQ(json_problem(std::string(100000, '[')), "is nested deeper than the 8 levels allowed");
  EXPECT_EQ(json_problem("[1, 2"), "is not JSON from byte 6 on");
  EXPECT_EQ(json_problem("[1e999]"), "has a number outside of the range of a double");
  EXPECT_NE(json_problem(std::string(kMostJsonBytes + 1, ' ')).find("must have at most"), std::string::npos);
}

TEST(json_text, refuses_a_key_that_stands_twice) {
  EXPECT_EQ(json_problem(R"([{"m": 1, "n": {"m": 1}}, {"m": 1}])"), "");
  EXPECT_EQ(json_problem(R"([{"m": 1, "n": 2, "m": 3}])"), "has the key \"m\" twice in one object");
  EXPECT_EQ(json_problem(R"([{"m": 1, "\u006d": 3}])"), "has the key \"m\" twice in one object");
}

std::string problem_of_list(const std::string& text) {
  const auto list = cli::parse_problem_list(text);
  EXPECT_FALSE(list);
  return list ? "" : list.error().message;
}

TEST(problem_list, depth_marks_and_repetition_are_bounded) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_NE(problem_of_list(R"([{"m":)" + deep + "}]").find("nested deeper"), std::string::npos);
  EXPECT_NE(problem_of_list(R"([{"m": [1]}])").find("\"m\" must be a number, a text"), std::string::npos);
  EXPECT_NE(problem_of_list(R"([{"m": 1, "m": 2}])").find("\"m\" twice"), std::string::npos);
  EXPECT_TRUE(
      cli::parse_problem_list("\xEF\xBB\xBF"
                              "64x64x64\n"));
  std::string marks;
  for (int i = 0; i < 100000; ++i) marks += "\xEF\xBB\xBF";
  EXPECT_LT(problem_of_list(marks + "64x64x64\n").size(), 300u);
  std::string many;
  for (int i = 0; i < 10001; ++i) many += "1x1x1\n";
  EXPECT_NE(problem_of_list("[" + std::string(20001, ',') + "]").find("not JSON"), std::string::npos);
}

TEST(problem_list, what_is_repeated_of_a_line_is_escaped) {
  const std::string message = problem_of_list(std::string("64x64x64\0\x1b[31m", 14));
  EXPECT_EQ(message,
            "line 1: shape \"64x64x64\\x00\\x1b[31m\" must be 3 numbers joined by x, like 4096x4096x4096");
  EXPECT_EQ(problem_of_list("64x64x64 3 --nope"), "line 1: there is no flag \"--nope\": leave it out");
  EXPECT_LT(problem_of_list(std::string(16000, 'x')).size(), 400u);
}

TEST(records, troubles_of_one_file_are_bounded) {
  std::string text = "[0";
  for (int i = 0; i < 5000; ++i) text += ",0";
  const ParsedRecords parsed = parse_records(text + "]", "FILE");
  EXPECT_EQ(parsed.troubles.size(), 100u);
  EXPECT_NE(parsed.troubles.back().find("more records are passed over"), std::string::npos);
}

TEST(text_file, a_device_without_an_end_is_refused) {
  const Result<std::string> zeros = read_text_file("/dev/zero", 1000);
  ASSERT_FALSE(zeros);
  EXPECT_NE(zeros.error().message.find("more than 1000 bytes"), std::string::npos) << zeros.error().message;
  EXPECT_NE(read_text_file("/no\nsuch", 10).error().message.find("/no\\nsuch cannot be read"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice
