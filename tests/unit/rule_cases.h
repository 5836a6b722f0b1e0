// SPDX-License-Identifier: Apache-2.0
// Checks that each rule of a validate() has a config that breaks it. The rules are all `return "..."` in its
// source.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace sluice::test {

template <class Config>
struct Broken {
  std::string rule;
  Config config;
};

inline std::set<std::string> rules_in(const std::string& path) {
  std::ifstream file(std::string(SLUICE_SOURCE_DIR) + path);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  // Joins string literals that are continued on the next line.
  const std::string source = std::regex_replace(text.str(), std::regex("\"\\s*\"\n?"), "");
  const std::regex rule("return \"([^\"]+)\"");
  std::set<std::string> rules;
  for (std::sregex_iterator i(source.begin(), source.end(), rule), end; i != end; ++i) rules.insert((*i)[1]);
  return rules;
}

/// Expects that `good` breaks no rule.
template <class Config>
void expect_all_rules_broken(const std::vector<Broken<Config>>& cases, const Config& good,
                             const std::string& path) {
  std::set<std::string> listed;
  for (const Broken<Config>& broken : cases) {
    const char* found = validate(broken.config);
    EXPECT_EQ(std::string(found == nullptr ? "no rule" : found), broken.rule);
    listed.insert(broken.rule);
  }
  EXPECT_EQ(validate(good), nullptr);
  EXPECT_EQ(rules_in(path), listed) << path;
}

}  // namespace sluice::test
