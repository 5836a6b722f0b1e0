// SPDX-License-Identifier: Apache-2.0
// cp.async: from global to shared memory without a register on the way. Of one thread; others see what came
// after its wait and a barrier. PTX ISA "cp.async", "cp.async.commit_group", "cp.async.wait_group".
#pragma once

#include <sluice/spec/base.h>

namespace sluice::ptx {

/// A word: `bytes` of 0..4 are read at `from`, a multiple of 4, and the rest of the word becomes zeros.
SLUICE_DEVICE void copy_4_bytes(u32 to, const void* from, u32 bytes) {
  asm volatile("cp.async.ca.shared::cta.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
// An L2 policy: lines that nobody will read again are the first to go.
SLUICE_DEVICE u64 evict_first_policy() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// What all CTAs read again is the last to go.
SLUICE_DEVICE u64 evict_last_policy() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
// No preference, as a value.
SLUICE_DEVICE u64 evict_normal_policy() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

SLUICE_DEVICE void copy_16_bytes(u32 to, const void* from, u64 policy) {
  asm volatile("cp.async.cg.shared::cta.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "l"(policy)
               : "memory");
}
// All 16 bytes, or zeros, for which `from` is not read.
SLUICE_DEVICE void copy_16_bytes_if(u32 to, const void* from, bool inside) {
  asm volatile(
      "{\n.reg .pred outside;\nsetp.eq.u32 outside, %2, 0;\n"
      "cp.async.cg.shared::cta.global [%0], [%1], 16, outside;\n}" ::"r"(to),
      "l"(from), "r"(static_cast<u32>(inside))
      : "memory");
}
SLUICE_DEVICE void copy_16_bytes_if(u32 to, const void* from, bool inside, u64 policy) {
  asm volatile(
      "{\n.reg .pred outside;\nsetp.eq.u32 outside, %2, 0;\n"
      "cp.async.cg.shared::cta.global.L2::cache_hint [%0], [%1], 16, outside, %3;\n}" ::"r"(to),
      "l"(from), "r"(static_cast<u32>(inside)), "l"(policy)
      : "memory");
}
// `bytes` of 0..16 are read, the rest of the 16 become zeros. Six instructions where `bytes` is not known.
SLUICE_DEVICE void copy_16_bytes(u32 to, const void* from, u32 bytes) {
  asm volatile("cp.async.cg.shared::cta.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

SLUICE_DEVICE void copy_16_bytes(u32 to, const void* from, u32 bytes, u64 policy) {
  asm volatile("cp.async.cg.shared::cta.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(to), "l"(from),
               "r"(bytes), "l"(policy)
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
/// Until all of this thread's copies have come.
SLUICE_DEVICE void copy_async_wait_all() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

}  // namespace sluice::ptx
