// SPDX-License-Identifier: Apache-2.0
#include "cli/measure_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <sluice/messages/errors.h>
#include <sluice/try.h>

#include "cli/bounded.h"
#include "cli/command_line.h"
#include "cli/target.h"
#include "cli/value_checks.h"

namespace sluice::cli {

void add_replay_flags(CLI::App& verb, bench::Method& method, const std::string& each) {
  bounded(verb.add_option("--rounds", method.rounds, "Timed replays of every " + each), 1, 1000);
  bounded(verb.add_option("--rest-ms", method.rest_ms, "Rest before each"), 0.0, kLongestRest);
  bounded(verb.add_option("--replay-us", method.replay_us, "Length of a replay"), 1.0, 1e6);
}

void add_run_flags(CLI::App& verb, std::string& commit, int& hang_s) {
  verb.add_option("--commit", commit, "Written into the JSON (else the one of the build)");
  bounded(verb.add_option("--hang-s", hang_s, "Give up when a step takes longer; 0: never"), 0, kLongestHang);
}

bench::RunRecord run_record(const bench::Lab& lab, const std::string& commit) {
  bench::RunRecord run = bench::describe_run(lab);
  run.command = command_line();
  run.commit = commit.empty() ? built_commit() : commit;
  return run;
}

Result<Device> gpu_of(const std::string& device, const Options& options, const char* without) {
  const Result<Target> target = find_target(device, options);
  if (!target && (target.error().code == ErrorCode::invalid_argument || has_driver())) return target.error();
  if (target && target->device) return *target->device;
  return Error{target ? ErrorCode::invalid_argument : target.error().code,
               target ? std::string(without) : fmt::format("{}; {}", without, kAskDoctor)};
}

Result<void> check_alive(const bench::Lab& lab, const std::string& done) {
  const Result<void> alive = bench::still_alive(lab);
  if (alive) return {};
  return within("the GPU is lost to this process after " + done, alive.error());
}

bench::Phase Job::part(std::string name) {
  return [this, name = std::move(name), number = begun_++](const std::string& what) {
    const std::string step = name + ": " + what;
    bar_.update(number, parts_, step);
    watchdog_.step(step);
  };
}

}  // namespace sluice::cli
