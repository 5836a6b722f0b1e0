// SPDX-License-Identifier: Apache-2.0
// Simulated synchronisation. The wait for earlier launches is each thread's own: before it, a thread must not
// touch what an earlier launch writes. Without named barriers, clusters and the register split.
#pragma once

#include <sluice/spec/base.h>

#include "cuda_names.h"

namespace sluice::ptx {

inline void cluster_arrive_relaxed() {
  simulated::cta.fault("clusters are not simulated");
}
inline void cluster_arrive_release() {
  simulated::cta.fault("clusters are not simulated");
}
inline void cluster_wait_acquire() {
  simulated::cta.fault("clusters are not simulated");
}
inline u32 cluster_cta_count() {
  return 1;
}
inline u32 cluster_cta_rank() {
  return 0;
}

inline void launch_dependents() {
  ++simulated::cta.triggers;
}
inline void wait_for_prerequisites() {
  if (simulated::cta.bug != simulated::Bug::no_launch_wait) simulated::cta.me().waited = true;
}

/// `pointer`: into the kernel's `extern` array.
inline u32 shared_address(const void* pointer) {
  return simulated::kSharedBase + static_cast<u32>(static_cast<const u8*>(pointer) - smem);
}

}  // namespace sluice::ptx
