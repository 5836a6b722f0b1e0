// SPDX-License-Identifier: Apache-2.0
// Verbs that time on a GPU: the flags of replays and of the record, and a job with its progress.
#pragma once

#include <string>

#include "bench/session.h"
#include "cli/terminal.h"
#include "cli/watchdog.h"

namespace CLI {
class App;
}  // namespace CLI

namespace sluice::cli {

/// Adds --rounds, --rest-ms and --replay-us. `each` tells the help text what a round replays.
void add_replay_flags(CLI::App& verb, bench::Method& method, const std::string& each);
/// A record with the lab's machine and method, this command, and `commit` or, if "", the build's commit.
bench::RunRecord run_record(const bench::Lab& lab, const std::string& commit);
/// The GPU of --device. Error with the message `without`: the host was named, or there is no driver.
Result<Device> gpu_of(const std::string& device, const Options& options, const char* without);
/// Error: the GPU is lost to this process after `done`, such as "3 of 9 shapes".
Result<void> check_alive(const bench::Lab& lab, const std::string& done);
/// Adds --commit and --hang-s.
void add_run_flags(CLI::App& verb, std::string& commit, int& hang_s);

/// A job of several parts on a GPU: a progress line, and a watchdog over each phase.
class Job {
 public:
  Job(const std::string& label, int hang_s, size_t parts)
      : watchdog_(hang_s), bar_(label), parts_(static_cast<int>(parts)) {}

  /// Begins the next part. Its phases are shown after `name`.
  bench::Phase part(std::string name);
  /// Removes the line, so that other text can be printed.
  void clear() { bar_.clear(); }

 private:
  Watchdog watchdog_;
  Progress bar_;
  int parts_, begun_ = 0;
};

}  // namespace sluice::cli
