// SPDX-License-Identifier: Apache-2.0
// `sluice doctor`: is this machine ready, and if not, what to do. Exit code 1 if something needed is missing.
#include <fmt/format.h>

#include <memory>

#include "cli/doctor_checks.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace sluice::cli {
namespace {

struct DoctorFlags {
  bool no_gpu = false;
  std::string cublaslt;
};

void print_check(const Check& check) {
  const char* word = check.health == Health::ok         ? "ok"
                     : check.health == Health::optional ? "absent"
                                                        : "MISSING";
  const Colour colour = check.health == Health::ok         ? Colour::green
                        : check.health == Health::optional ? Colour::yellow
                                                           : Colour::red;
  fmt::print("{} {:<13} {}\n", paint(stdout, colour, fmt::format("{:<8}", word)), check.name, check.found);
  if (!check.remedy.empty()) fmt::print("{:9}{:<13} -> {}\n", "", "", check.remedy);
}

Result<int> run_doctor(const DoctorFlags& flags) {
  const std::vector<Check> checks =
      examine({.options = options_from_environment(), .gpu = !flags.no_gpu, .cublaslt = flags.cublaslt});
  for (const Check& check : checks) print_check(check);
  const bool well = healthy(checks);
  fmt::print("\n{}\n",
             well ? paint(stdout, Colour::green, "ready") : paint(stdout, Colour::red, "not ready"));
  return well ? kExitOk : kExitNo;
}

}  // namespace

Verb add_doctor_verb(CLI::App& app) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* verb = app.add_subcommand("doctor", "Check driver, GPU, NVRTC, cache; say how to repair");
  verb->add_flag("--no-gpu", flags->no_gpu, "This machine only plans, compiles and tests");
  verb->add_option("--cublaslt", flags->cublaslt, "The libcublasLt that bench shall use");
  return {verb, [flags] { return run_doctor(*flags); }};
}

}  // namespace sluice::cli
