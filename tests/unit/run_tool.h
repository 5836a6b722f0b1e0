// SPDX-License-Identifier: Apache-2.0
// Runs the built tool as a process, as a user does.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace sluice {

struct Outcome {
  int code = -1;
  std::string text;  // stdout and stderr together

  bool has(const std::string& part) const { return text.find(part) != std::string::npos; }
};

/// Runs the tool, or with one of its verbs the authors' tool. `environment`: variable assignments in shell
/// syntax.
inline Outcome run_tool(const std::string& environment, const std::string& arguments) {
  bool lab = false;
  for (const char* verb : {"verify", "rows", "calibrate", "fit"}) lab = lab || arguments.starts_with(verb);
  const std::string command = environment + " '" SLUICE_BINARY_DIR "/sluice" + (lab ? "_lab" : "") + "' " +
                              arguments + " 2>&1 </dev/null";
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> part;
  while (const size_t count = fread(part.data(), 1, part.size(), pipe))
    outcome.text.append(part.data(), count);
  outcome.code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

}  // namespace sluice
