// SPDX-License-Identifier: Apache-2.0
#include "cli/measure_flags.h"

#include <CLI/CLI.hpp>

#include "cli/value_checks.h"

namespace sluice::cli {

void add_replay_flags(CLI::App& verb, bench::Method& method, const std::string& each) {
  verb.add_option("--rounds", method.rounds, "Timed replays of every " + each)
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  verb.add_option("--rest-ms", method.rest_ms, "Rest before each")
      ->capture_default_str()
      ->check(CLI::Range(0.0, kLongestRest));
  verb.add_option("--replay-us", method.replay_us, "Length of a replay")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 1e6));
}

void add_run_flags(CLI::App& verb, std::string& commit, int& hang_s) {
  verb.add_option("--commit", commit, "Written into the JSON (else the one of the build)");
  verb.add_option("--hang-s", hang_s, "Give up when a step takes longer; 0: never")
      ->capture_default_str()
      ->check(CLI::Range(0, kLongestHang));
}

}  // namespace sluice::cli
