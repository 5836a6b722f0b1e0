// SPDX-License-Identifier: Apache-2.0
// Flags of verbs that time on a GPU: how a replay is timed, and the data written about the run.
#pragma once

#include <string>

#include "bench/session.h"

namespace CLI {
class App;
}  // namespace CLI

namespace sluice::cli {

/// Adds --rounds, --rest-ms and --replay-us. `each` tells the help text what a round replays.
void add_replay_flags(CLI::App& verb, bench::Method& method, const std::string& each);
/// A record with the lab's machine and method, this command, and `commit` or, if "", the build's commit.
bench::RunRecord run_record(const bench::Lab& lab, const std::string& commit);
/// The GPU of --device. Error invalid_argument with the message `without` if the host was named.
Result<Device> gpu_of(const std::string& device, const Options& options, const char* without);
/// Error: the GPU is lost to this process after `done`, such as "3 of 9 shapes".
Result<void> check_alive(const bench::Lab& lab, const std::string& done);
/// Adds --commit and --hang-s.
void add_run_flags(CLI::App& verb, std::string& commit, int& hang_s);

}  // namespace sluice::cli
