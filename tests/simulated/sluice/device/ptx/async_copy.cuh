// SPDX-License-Identifier: Apache-2.0
// Simulated cp.async (tests/simulated/simulated_cta.h): a copy's words must not be touched before its thread
// has waited for its group.
#pragma once

#include <sluice/spec/base.h>

#include "cuda_names.h"

namespace sluice::ptx {

inline void copy_4_bytes(u32 to, const void* from, u32 bytes) {
  simulated::cta.copy(to, from, 4, bytes);
}
inline u64 evict_first_policy() {
  return 1;
}
inline u64 evict_last_policy() {
  return 2;
}
inline u64 evict_normal_policy() {
  return 3;
}
inline void copy_16_bytes(u32 to, const void* from, u64) {
  simulated::cta.copy(to, from, 16, 16);
}
inline void copy_16_bytes_if(u32 to, const void* from, bool inside) {
  simulated::cta.copy(to, from, 16, inside ? 16 : 0);
}
inline void copy_16_bytes_if(u32 to, const void* from, bool inside, u64) {
  simulated::cta.copy(to, from, 16, inside ? 16 : 0);
}
inline void copy_16_bytes(u32 to, const void* from, u32 bytes) {
  simulated::cta.copy(to, from, 16, bytes);
}
inline void copy_16_bytes(u32 to, const void* from, u32 bytes, u64) {
  simulated::cta.copy(to, from, 16, bytes);
}
inline void commit_copies() {
  simulated::cta.commit();
}
template <int kPending>
void wait_copies() {
  simulated::cta.wait_copies(kPending);
}
inline void copy_async_wait_all() {
  simulated::cta.wait_all_copies();
}

}  // namespace sluice::ptx
