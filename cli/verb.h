// SPDX-License-Identifier: Apache-2.0
// A verb: a CLI11 subcommand and the function that runs it. Each verb has its own file. main.cc lists the
// verbs, program.cc runs the one that is named. Only program.cc converts an Error to text and an exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include <sluice/result.h>

#include "cli/exit_code.h"

namespace sluice::cli {

struct Verb {
  CLI::App* app = nullptr;
  std::function<Result<int>()> run;  // returns the exit code, or the reason why it could not run
};

Verb add_run_verb(CLI::App& app);
Verb add_plan_verb(CLI::App& app);
Verb add_compile_verb(CLI::App& app);
Verb add_bench_verb(CLI::App& app);
Verb add_chain_verb(CLI::App& app);
Verb add_tune_verb(CLI::App& app);
Verb add_doctor_verb(CLI::App& app);
Verb add_pack_verb(CLI::App& app);

}  // namespace sluice::cli
