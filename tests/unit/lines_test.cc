// SPDX-License-Identifier: Apache-2.0
// Breaks text into lines of limited length. Fails if a line is longer than its words require, or if text is
// lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include <sluice/plan/text/lines.h>

namespace sluice {
namespace {

std::string without_blanks(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

TEST(lines, short_text_stays_as_it_is) {
  EXPECT_EQ(wrapped("", 4), "");
  EXPECT_EQ(wrapped("one two", 4), "one two");
  EXPECT_EQ(wrapped("one\ntwo", 4), "one\ntwo");
  EXPECT_EQ(line("kernel", "narrow"), "kernel     narrow\n");
}

TEST(lines, long_text_is_broken_at_blanks_and_kept_whole) {
  std::string text;
  for (int i = 0; i < 200; ++i)
    text += (i == 0 ? "" : " ") +
            std::string(static_cast<std::size_t>(1 + i * 7 % 23), static_cast<char>('a' + i % 26));
  for (const std::size_t begun : {0u, 11u, 109u, 200u}) {
    const std::string out = wrapped(text, 11, begun);
    EXPECT_EQ(without_blanks(out), without_blanks(text)) << begun;
    std::istringstream lines(out);
    std::string one;
    std::getline(lines, one);
    EXPECT_LE(one.size(),
              std::max<std::size_t>(kMostColumns, begun + 23) - std::min<std::size_t>(begun, 110));
    while (std::getline(lines, one)) {
      EXPECT_LE(one.size(), kMostColumns) << one;
      EXPECT_EQ(one.find_first_not_of(' '), 11u) << one;
    }
  }
}

TEST(lines, a_word_that_fits_no_line_stays_whole) {
  const std::string word(300, 'x');
  EXPECT_EQ(wrapped(word, 4), word);
  EXPECT_EQ(without_blanks(wrapped("a " + word + " b", 4)), "a" + word + "b");
  EXPECT_NE(wrapped("a " + word + " b", 4).find(word), std::string::npos);
}

}  // namespace
}  // namespace sluice
