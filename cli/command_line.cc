// SPDX-License-Identifier: Apache-2.0
// The tool's only global state. It is written before anything else runs.
#include "cli/command_line.h"

namespace sluice::cli {
namespace {

std::string& stored() {
  static std::string text;
  return text;
}

std::string& named() {
  static std::string name = "sluice";
  return name;
}

std::string quoted(const std::string& word) {
  constexpr const char* kHarmless =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  if (!word.empty() && word.find_first_not_of(kHarmless) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

void remember_command_line(int argc, const char* const* argv, const char* name) {
  named() = name;
  std::string text = name;
  for (int i = 1; i < argc; ++i) text += " " + quoted(argv[i]);
  stored() = text;
}

std::string program_name() {
  return named();
}

std::string command_line() {
  return stored();
}

std::string built_commit() {
#ifdef SLUICE_COMMIT
  return SLUICE_COMMIT;
#else
  return "";
#endif
}

std::string built_sources() {
#ifdef SLUICE_SOURCES
  return SLUICE_SOURCES;
#else
  return "";
#endif
}

}  // namespace sluice::cli
