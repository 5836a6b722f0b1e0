// SPDX-License-Identifier: Apache-2.0
// Edit distances of words, and the word that was meant. Fails if a swap counts twice, or if unrelated words
// count as near.
#include <gtest/gtest.h>

#include "cli/nearest.h"

namespace sluice::cli {
namespace {

TEST(cli_nearest, letters_that_are_apart) {
  EXPECT_EQ(letters_apart("plan", "plan"), 0);
  EXPECT_EQ(letters_apart("", "plan"), 4);
  EXPECT_EQ(letters_apart("plan", ""), 4);
  EXPECT_EQ(letters_apart("pln", "plan"), 1);
  EXPECT_EQ(letters_apart("plane", "plan"), 1);
  EXPECT_EQ(letters_apart("plen", "plan"), 1);
  EXPECT_EQ(letters_apart("plna", "plan"), 1) << "a swap of neighbours";
  EXPECT_EQ(letters_apart("kitten", "sitting"), 3);
}

TEST(cli_nearest, the_word_that_was_meant) {
  const std::vector<std::string> verbs = {"run", "plan", "compile", "bench", "tune"};
  EXPECT_EQ(nearest("plna", verbs), "plan");
  EXPECT_EQ(nearest("complie", verbs), "compile");
  EXPECT_EQ(nearest("bnech", verbs), "bench");
  EXPECT_EQ(nearest("frobnicate", verbs), "");
  EXPECT_EQ(nearest("x", verbs), "");
  EXPECT_EQ(nearest("", verbs), "");
  EXPECT_EQ(nearest(std::string(100000, 'p'), verbs), "") << "not compared letter by letter";
  EXPECT_EQ(nearest("x", {"m"}), "") << "nothing in common";
}

}  // namespace
}  // namespace sluice::cli
