// SPDX-License-Identifier: Apache-2.0
// cp.async: copies from global to shared memory without registers. A copy belongs to one thread; other
// threads see its data after that thread's wait and a barrier. PTX ISA "cp.async", "cp.async.commit_group",
// "cp.async.wait_group".
#pragma once

#include <sluice/spec/base.h>

namespace sluice::ptx {

/// Copies one word: reads `bytes` (0..4) at `from`, a multiple of 4; the rest of the word becomes zeros.
SLUICE_DEVICE void copy_4_bytes(u32 to, const void* from, u32 bytes) {
  asm volatile("cp.async.ca.shared::cta.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
// An L2 policy for lines that are read once: they are evicted first.
SLUICE_DEVICE u64 evict_first_policy() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// An L2 policy for lines that all CTAs read again: they are evicted last.
SLUICE_DEVICE u64 evict_last_policy() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
// The default L2 policy, as a value.
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
// Copies 16 bytes, or writes zeros without reading `from`.
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
// Copies `bytes` of 0..16; the rest of the 16 become zeros. Takes six instructions if `bytes` is not
// constant.
SLUICE_DEVICE void copy_16_bytes(u32 to, const void* from, u32 bytes) {
  asm volatile("cp.async.cg.shared::cta.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

SLUICE_DEVICE void copy_16_bytes(u32 to, const void* from, u32 bytes, u64 policy) {
  asm volatile("cp.async.cg.shared::cta.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(to), "l"(from),
               "r"(bytes), "l"(policy)
               : "memory");
}

// Makes a group of this thread's copies since the last call. A group may be empty.
SLUICE_DEVICE void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most the kPending newest groups of this thread are in flight.
template <int kPending>
SLUICE_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
/// Waits until all of this thread's copies have arrived.
SLUICE_DEVICE void copy_async_wait_all() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

}  // namespace sluice::ptx
