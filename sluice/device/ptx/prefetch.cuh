// SPDX-License-Identifier: Apache-2.0
// L2 prefetch of memory that another launch or CTA will read. PTX ISA "cp.async.bulk.prefetch" (sm_90).
#pragma once

#include <sluice/spec/base.h>

namespace sluice::ptx {

// cp.async.bulk.prefetch.L2: returns at once; its completion cannot be observed. Address and bytes must be
// multiples of 16.
SLUICE_DEVICE void prefetch_bulk_to_l2(const void* address, u32 bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(address), "r"(bytes) : "memory");
}

}  // namespace sluice::ptx
