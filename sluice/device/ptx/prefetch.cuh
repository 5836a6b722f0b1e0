// SPDX-License-Identifier: Apache-2.0
// Asking L2 for memory that somebody else will read. PTX ISA "cp.async.bulk.prefetch" (sm_90).
#pragma once

#include <sluice/spec/base.h>

namespace sluice::ptx {

// cp.async.bulk.prefetch.L2: nobody waits, and nothing can be waited for. Address and bytes are multiples
// of 16.
SLUICE_DEVICE void prefetch_bulk_to_l2(const void* address, u32 bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(address), "r"(bytes) : "memory");
}

}  // namespace sluice::ptx
