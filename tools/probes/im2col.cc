// SPDX-License-Identifier: Apache-2.0
// Probes of the hardware features that convolutions use: TMA's im2col mode, and WGMMA on boxes of pixels.
// README.md tells how to build and run them; each experiment runs in its own process.
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
