// SPDX-License-Identifier: Apache-2.0
// CTA and cluster: barriers, ranks, the register split, warp election.
#pragma once

#include <sluice/spec/base.h>

namespace sluice::ptx {

// barrier.sync id, threads
SLUICE_DEVICE void named_barrier_sync(int id, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// barrier.arrive: makes this thread's writes visible to threads that sync on the barrier; does not wait
SLUICE_DEVICE void named_barrier_arrive(int id, int threads) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// barrier.red.or: a barrier.sync that returns true in every thread if any thread passed true
SLUICE_DEVICE bool named_barrier_any(int id, int threads, bool yes) {
  u32 any;
  asm volatile(
      "{\n"
      ".reg .pred mine, any;\n"
      "setp.ne.u32 mine, %3, 0;\n"
      "barrier.red.or.pred any, %1, %2, mine;\n"
      "selp.u32 %0, 1, 0, any;\n"
      "}"
      : "=r"(any)
      : "r"(id), "r"(threads), "r"(static_cast<u32>(yes))
      : "memory");
  return any != 0;
}

// barrier.cluster.arrive + wait. It orders no memory accesses, because a release would cost a GPU-wide fence;
// fence.mbarrier_init makes barriers visible instead.
SLUICE_DEVICE void cluster_sync_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// The cluster barrier in two steps; every thread of the cluster takes both. The relaxed arrive orders no
// memory accesses. The release arrive makes this thread's writes, including those to the cluster's shared
// memory, visible to threads that have passed the acquiring wait.
SLUICE_DEVICE void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
SLUICE_DEVICE void cluster_arrive_release() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
SLUICE_DEVICE void cluster_wait_acquire() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// griddepcontrol.launch_dependents: once all CTAs have called it or exited, CTAs of a dependent launch may
// start where they fit
SLUICE_DEVICE void launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
// griddepcontrol.wait: returns when the launches that this one depends on have ended and their writes are
// visible
SLUICE_DEVICE void wait_for_prerequisites() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// number of CTAs of the cluster; 1 without a cluster
SLUICE_DEVICE u32 cluster_cta_count() {
  u32 count;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
  return count;
}
// Index of the CTA's cluster in the grid, and the number of clusters; without clusters, of CTAs.
SLUICE_DEVICE u32 cluster_index() {
  u32 index;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(index));
  return index;
}
SLUICE_DEVICE u32 cluster_count() {
  u32 count;
  asm("mov.u32 %0, %%nclusterid.x;" : "=r"(count));
  return count;
}
SLUICE_DEVICE u32 cluster_cta_rank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// setmaxnreg: all warps of a warpgroup execute it; spec/config.h has the values (load_registers,
// math_registers)
template <int kRegisters>
SLUICE_DEVICE void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
SLUICE_DEVICE void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

SLUICE_DEVICE u32 shared_address(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

}  // namespace sluice::ptx
