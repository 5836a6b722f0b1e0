// SPDX-License-Identifier: Apache-2.0
// A command-line program with verbs: `sluice` (main.cc) and `sluice_lab`, the authors' tool, share it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/verb.h"

namespace sluice::cli {

struct Program {
  const char* name;
  const char* description;
  std::vector<Verb (*)(CLI::App&)> verbs;
  /// Words that are not verbs, and text that says what to use instead.
  std::vector<std::pair<const char*, const char*>> other_words;
};

/// Runs the verb that argv names and returns the exit code.
int run_program(const Program& program, int argc, char** argv);

}  // namespace sluice::cli
