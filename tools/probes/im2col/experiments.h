// SPDX-License-Identifier: Apache-2.0
// The experiments of im2col.cu.
#pragma once

#include "../harness.h"

namespace probe {

void run_emulator(Cases& cases);    // published examples; needs no GPU
void run_layout(Cases& cases);      // E0: layout in shared memory
void run_rates(Cases& cases);       // E1: load rates
void run_halo(Cases& cases);        // E2: WGMMA on one box of pixels
void run_stores(Cases& cases);      // E3: stores
void run_limits(Cases& cases);      // E4: limits of tensor maps
void run_geometries(Cases& cases);  // E4r: random geometries

}  // namespace probe
