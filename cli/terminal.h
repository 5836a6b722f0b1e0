// SPDX-License-Identifier: Apache-2.0
// Output for the terminal: colours and a progress bar on a terminal, plain text elsewhere. Honours NO_COLOR.
// Used by all verbs; only this file calls isatty().
#pragma once

#include <concepts>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace sluice::cli {

enum class Colour { plain, bold, dim, red, green, yellow };

bool is_terminal(std::FILE* file);
/// Returns `text` in colour if `file` is a terminal, else unchanged.
std::string paint(std::FILE* file, Colour colour, std::string_view text);

/// Wraps `text` if `file` is a terminal; further lines are indented by `indent` blanks. The first line is
/// assumed to start at column `indent`. Elsewhere returns `text` unchanged, so that a message stays one line
/// of a log.
std::string for_people(std::FILE* file, std::string_view text, int indent);

/// Returns for example "1 problem" or "2 problems".
template <std::integral Count>
std::string counted(Count count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

/// A line on stderr that shows a job's progress. Prints nothing if stderr is not a terminal, so that logs
/// stay readable.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(int done, int total, std::string_view note = {});
  /// Erases the line, so that other text can be printed.
  void clear();

 private:
  std::string label_;
  bool live_;
  bool drawn_ = false;
};

/// Shows elapsed and expected seconds of a job that has one step, until it is destroyed.
class Waiting {
 public:
  Waiting(std::string label, double guess_s);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  /// Erases the line, so that other text can be printed.
  void stop();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace sluice::cli
