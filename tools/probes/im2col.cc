// SPDX-License-Identifier: Apache-2.0
// Probes of what convolutions rest on: the copy engine's im2col mode and WGMMA on boxes of pixels. See
// README.md for how to build and run; each experiment runs in a process of its own.
#include "im2col/experiments.h"

int main(int argc, char** argv) {
  using namespace probe;
  return run_experiments(argc, argv,
                         {{"emulator", run_emulator, false},
                          {"E0", run_layout, true},
                          {"E1", run_rates, true},
                          {"E2", run_halo, true},
                          {"E3", run_stores, true},
                          {"E4", run_limits, true},
                          {"E4r", run_geometries, true}});
}
