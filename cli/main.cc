// SPDX-License-Identifier: Apache-2.0
// The `sluice` tool: its verbs, one file each.
#include "cli/program.h"

int main(int argc, char** argv) {
  using namespace sluice::cli;
  return run_program(
      {.name = "sluice",
       .description = "Matrix products on NVIDIA Hopper, compiled for the problem at hand.\n"
                      "D = act(alpha * scale_a * scale_b * A B + beta * C + bias)",
       .verbs = {add_run_verb, add_plan_verb, add_compile_verb, add_bench_verb, add_chain_verb, add_tune_verb,
                 add_doctor_verb, add_pack_verb},
       .other_words =
           {{"records", "sluice tune makes records, sluice_lab verify --records checks them"},
            {"conv", "sluice run --conv computes a convolution; plan, bench and tune take --conv too"},
            {"explain", "sluice plan explains a plan"},
            {"test", "sluice run verifies a problem, sluice_lab verify many random ones"},
            {"verify", "sluice_lab verify checks random problems; the build makes it beside sluice"},
            {"rows", "sluice plan --rows shows the kernels of a range, sluice_lab rows times them"},
            {"calibrate", "sluice_lab calibrate measures a card's rates; the build makes it beside sluice"},
            {"version", "sluice --version prints it"}}},
      argc, argv);
}
