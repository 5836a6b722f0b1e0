// SPDX-License-Identifier: Apache-2.0
// cp.async: words from global to shared memory that need no register while they are on their way. Of one
// thread; others see them after its wait and a barrier. PTX ISA "cp.async", "cp.async.wait_all".
#pragma once

#include <sluice/spec/base.h>

namespace sluice::ptx {

/// One fp32 at `from`, or a zero, for which `from` is not read.
SLUICE_DEVICE void copy_async(u32 to, const float* from, bool inside) {
  asm volatile("cp.async.ca.shared::cta.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(inside ? 4 : 0)
               : "memory");
}
/// Until all of this thread's copies have come.
SLUICE_DEVICE void copy_async_wait_all() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

}  // namespace sluice::ptx
