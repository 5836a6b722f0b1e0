// SPDX-License-Identifier: Apache-2.0
// The packing kernels on the GPU: 16-byte accesses that bypass L1, because nothing is read twice. Launched by
// run/ops/pack.cc.
#pragma once

#include <sluice/kernels/pack.cuh>

namespace sluice::pack {

struct DeviceMemory {
  SLUICE_DEVICE static uint4 load(const u8* address) {
    uint4 words;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
        : "l"(address));
    return words;
  }
  SLUICE_DEVICE static void store(u8* address, uint4 words) { *reinterpret_cast<uint4*>(address) = words; }
};

}  // namespace sluice::pack
