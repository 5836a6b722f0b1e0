// SPDX-License-Identifier: Apache-2.0
// cp.async: 16 bytes a thread from global to shared memory without a register, in groups. PTX ISA: cp.async.
#pragma once

#include <sluice/spec/base.h>

namespace sluice::ptx {

// An L2 policy: lines that nobody will read again are the first to go.
SLUICE_DEVICE u64 evict_first_policy() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

SLUICE_DEVICE void copy_16_bytes(u32 to, const void* from, u64 policy) {
  asm volatile("cp.async.cg.shared::cta.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "l"(policy)
               : "memory");
}
// `bytes` of 0..16 are read, the rest of the 16 become zeros.
SLUICE_DEVICE void copy_16_bytes(u32 to, const void* from, u32 bytes) {
  asm volatile("cp.async.cg.shared::cta.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

// What this thread copied since the last call becomes one group; an empty group is one too.
SLUICE_DEVICE void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until at most kPending of this thread's newest groups are still on the way.
template <int kPending>
SLUICE_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace sluice::ptx
