// SPDX-License-Identifier: Apache-2.0
// A verb of the command line: a CLI11 subcommand and what to do when it was named. One file per verb; main.cc
// lists them, runs the one that was named and is the only place that turns an Error into text and exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include <sluice/result.h>

#include "cli/exit_code.h"

namespace sluice::cli {

struct Verb {
  CLI::App* app = nullptr;
  std::function<Result<int>()> run;  // the exit code, or why it could not run
};

Verb add_run_verb(CLI::App& app);
Verb add_plan_verb(CLI::App& app);
Verb add_compile_verb(CLI::App& app);
Verb add_bench_verb(CLI::App& app);
Verb add_rows_verb(CLI::App& app);
Verb add_chain_verb(CLI::App& app);
Verb add_tune_verb(CLI::App& app);
Verb add_verify_verb(CLI::App& app);
Verb add_doctor_verb(CLI::App& app);
Verb add_pack_verb(CLI::App& app);

}  // namespace sluice::cli
