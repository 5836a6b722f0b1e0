// SPDX-License-Identifier: Apache-2.0
// Output for the terminal: colours and a progress bar on a terminal, plain text elsewhere. Honours NO_COLOR.
// Used by all verbs; only this file calls isatty().
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace sluice::cli {

enum class Colour { plain, bold, dim, red, green, yellow };

bool is_terminal(std::FILE* file);
/// `text` in colour if `file` is a terminal, else unchanged.
std::string paint(std::FILE* file, Colour colour, std::string_view text);

/// A line that shows a job's progress. Silent when stderr is no terminal, so that logs stay readable.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(int done, int total, std::string_view note = {});
  /// Removes the line, so that other text can be printed.
  void clear();

 private:
  std::string label_;
  bool live_;
  bool drawn_ = false;
};

}  // namespace sluice::cli
