// SPDX-License-Identifier: Apache-2.0
// `sluice doctor`: tells whether this machine is ready and, if not, what to do. Exit code 1: something that
// is needed is missing.
#include <fmt/format.h>

#include <memory>

#include <sluice/text.h>

#include "cli/doctor_checks.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace sluice::cli {
namespace {

constexpr int kFindingIndent = 23;

struct DoctorFlags {
  bool no_gpu = false;
  std::string cublaslt;
  std::string cudnn;
};

struct Wording {
  const char* of_check;
  const char* of_machine;
  Colour colour;
};

Wording wording(Health health) {
  switch (health) {
    case Health::ok: return {"ok", "ready", Colour::green};
    case Health::optional: return {"absent", "ready", Colour::yellow};
    case Health::cached:
      return {"absent", "ready for the kernels in the cache, and no others", Colour::yellow};
    case Health::missing: break;
  }
  return {"MISSING", "not ready", Colour::red};
}

void print_check(const Check& check) {
  const auto [word, machine, colour] = wording(check.health);
  fmt::print("{} {:<13} {}\n", paint(stdout, colour, fmt::format("{:<8}", word)), check.name,
             for_people(stdout, printable(check.found), kFindingIndent));
  if (!check.remedy.empty())
    fmt::print("{:9}{:<13} -> {}\n", "", "", for_people(stdout, check.remedy, kFindingIndent + 3));
}

Result<int> run_doctor(const DoctorFlags& flags) {
  const std::vector<Check> checks = examine({.options = options_from_environment(),
                                             .gpu = !flags.no_gpu,
                                             .cublaslt = flags.cublaslt,
                                             .cudnn = flags.cudnn});
  for (const Check& check : checks) print_check(check);
  const Health health = verdict(checks);
  const Wording words = wording(health);
  fmt::print("\n{}\n", paint(stdout, words.colour, words.of_machine));
  return health == Health::missing ? kExitNo : kExitOk;
}

}  // namespace

Verb add_doctor_verb(CLI::App& app) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* verb = app.add_subcommand("doctor", "Check driver, GPU, NVRTC, cache; say how to repair");
  verb->add_flag("--no-gpu", flags->no_gpu, "This machine only plans, compiles and tests");
  verb->add_option("--cublaslt", flags->cublaslt, "The libcublasLt that bench shall use");
  verb->add_option("--cudnn", flags->cudnn, "The libcudnn that bench --conv shall use");
  return {verb, [flags] { return run_doctor(*flags); }};
}

}  // namespace sluice::cli
