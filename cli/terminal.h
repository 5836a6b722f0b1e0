// SPDX-License-Identifier: Apache-2.0
// What the terminal can show: colours and a progress bar on a terminal, plain text everywhere else.
// Honours NO_COLOR. Used by all verbs; the only place that asks isatty().
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace sluice::cli {

enum class Colour { plain, bold, dim, red, green, yellow };

bool is_terminal(std::FILE* file);
/// `text` in colour if `file` is a terminal, else unchanged.
std::string paint(std::FILE* file, Colour colour, std::string_view text);

/// One line that shows how far a job is. Quiet when stderr is no terminal, so that logs stay readable.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(int done, int total, std::string_view note = {});
  /// Takes the line away, so that something else can be printed.
  void clear();

 private:
  std::string label_;
  bool live_;
  bool drawn_ = false;
};

}  // namespace sluice::cli
