// SPDX-License-Identifier: Apache-2.0
// The number of the SM, and the GPU's clock.
#pragma once

#include <sluice/spec/base.h>

namespace sluice::ptx {

// %smid
SLUICE_DEVICE u32 sm_number() {
  u32 number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  return number;
}
// %globaltimer: one clock for all SMs, in nanoseconds
SLUICE_DEVICE u64 nanoseconds() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}

}  // namespace sluice::ptx
