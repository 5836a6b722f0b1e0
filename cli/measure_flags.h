// SPDX-License-Identifier: Apache-2.0
// For verbs that time on a GPU: the flags of replays and of records, and a job that shows its progress.
#pragma once

#include <string>

#include <sluice/bench/session.h>

#include "cli/terminal.h"
#include "cli/watchdog.h"

namespace CLI {
class App;
}  // namespace CLI

namespace sluice::cli {

/// Adds --rounds, --rest-ms and --replay-us. `each` is the noun in the help text: what one round replays.
void add_replay_flags(CLI::App& verb, bench::Method& method, const std::string& each);
/// Describes a run: the lab's machine and method, and this command line. If `commit` is "", it is the commit
/// of the build.
bench::RunRecord run_record(const bench::Lab& lab, const std::string& commit);
/// Opens the GPU that --device names. If it names the host, or there is no driver, returns an error with the
/// message `without`.
Result<Device> gpu_of(const std::string& device, const Options& options, const char* without);
/// Returns an error if a fault has made the GPU unusable for this process. `done` says how far it got, such
/// as "3 of 9 shapes".
Result<void> check_alive(const bench::Lab& lab, const std::string& done);
/// Adds --commit and --hang-s.
void add_run_flags(CLI::App& verb, std::string& commit, int& hang_s);

/// A GPU job of several parts. Shows a progress line, and a watchdog limits the time of each phase.
class Job {
 public:
  Job(const std::string& label, int hang_s, size_t parts)
      : watchdog_(hang_s), bar_(label), parts_(static_cast<int>(parts)) {}

  /// Begins the next part. The progress line shows `name` and the phase.
  bench::Phase part(std::string name);
  /// Erases the progress line, so that other text can be printed.
  void clear() { bar_.clear(); }

 private:
  Watchdog watchdog_;
  Progress bar_;
  int parts_, begun_ = 0;
};

}  // namespace sluice::cli
