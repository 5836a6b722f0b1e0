// SPDX-License-Identifier: Apache-2.0
// Simulated prefetch into L2: it is counted.
#pragma once

#include <sluice/spec/base.h>

#include "cuda_names.h"

namespace sluice::ptx {

inline void prefetch_bulk_to_l2(const void* address, u32 bytes) {
  if (reinterpret_cast<u64>(address) % 16 != 0 || bytes % 16 != 0)
    simulated::cta.fault("a prefetch is not of whole 16 bytes");
  ++simulated::cta.prefetches;
}

}  // namespace sluice::ptx
