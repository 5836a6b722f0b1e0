// SPDX-License-Identifier: Apache-2.0
// `sluice_lab`: the verbs of the authors, one file each.
#include "cli/program.h"
#include "lab/verbs.h"

int main(int argc, char** argv) {
  using namespace sluice::lab;
  return sluice::cli::run_program(
      {.name = "sluice_lab",
       .description = "Measures and checks sluice itself, for its authors (CONTRIBUTING.md)",
       .verbs = {add_verify_verb, add_rows_verb, add_calibrate_verb, add_fit_verb},
       .other_words = {{"bench", "sluice bench times problems; see sluice --help"},
                       {"version", "sluice_lab --version prints it"}}},
      argc, argv);
}
