// SPDX-License-Identifier: Apache-2.0
// The experiments of im2col.cu.
#pragma once

#include "../harness.h"

namespace probe {

void run_emulator(Cases& cases);    // published examples; needs no GPU
void run_layout(Cases& cases);      // E0
void run_rates(Cases& cases);       // E1
void run_halo(Cases& cases);        // E2
void run_stores(Cases& cases);      // E3
void run_limits(Cases& cases);      // E4
void run_geometries(Cases& cases);  // E4r

}  // namespace probe
