// SPDX-License-Identifier: Apache-2.0
// Flags of verbs that time something on a GPU: how a replay is timed, and what is written of the run.
#pragma once

#include <string>

#include "bench/lab.h"

namespace CLI {
class App;
}  // namespace CLI

namespace sluice::cli {

/// Adds --rounds, --rest-ms and --replay-us. `each`: what a round replays, for the help.
void add_replay_flags(CLI::App& verb, bench::Method& method, const std::string& each);
/// Adds --commit and --hang-s.
void add_run_flags(CLI::App& verb, std::string& commit, int& hang_s);

}  // namespace sluice::cli
