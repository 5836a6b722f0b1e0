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
/// `text` in colour if `file` is a terminal, else unchanged.
std::string paint(std::FILE* file, Colour colour, std::string_view text);

/// `text` in lines for a terminal, those below the first behind `indent` blanks; elsewhere unchanged, so that
/// a message stays one line of a log. The first line begins behind `indent` bytes, too.
std::string for_people(std::FILE* file, std::string_view text, int indent);

/// "1 problem", "2 problems".
template <std::integral Count>
std::string counted(Count count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

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

/// Shows the seconds of a job of one step beside those that it will take by a guess, until it is destroyed.
class Waiting {
 public:
  Waiting(std::string label, double guess_s);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  /// Removes the line, so that other text can be printed.
  void stop();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace sluice::cli
