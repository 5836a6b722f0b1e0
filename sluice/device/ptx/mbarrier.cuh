// SPDX-License-Identifier: Apache-2.0
// mbarrier: arrival counts, transaction bytes, parity waits. PTX ISA 9.7.13.15 (sm_90).
// Addresses are 32-bit shared-window addresses of 8-byte objects.
#pragma once

#include <sluice/spec/base.h>

namespace sluice::ptx {

// mbarrier.init.shared::cta.b64 [addr], count;
SLUICE_DEVICE void mbarrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// fence.mbarrier_init.release.cluster: makes initialised barriers visible to peers and to the copy engine
SLUICE_DEVICE void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// mbarrier.arrive.expect_tx: one arrival, and `bytes` more to be transferred in this phase
SLUICE_DEVICE void mbarrier_arrive_expect_tx(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// mbarrier.arrive on this CTA's barrier
SLUICE_DEVICE void mbarrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// mbarrier.arrive on the barrier at the same offset in CTA `cta_rank` of the cluster, which may be this one.
// It deliberately names no scope: `.release.cluster` compiles to a fence that costs about 400 ns per arrival
// (H200, CUDA 13.0, docs/findings/cluster-arrive.md). The fence is not needed: the released stage was read by
// WGMMA, which wait_group has completed, or by ld.shared before a warp barrier, and an SM executes both in
// order.
SLUICE_DEVICE void mbarrier_arrive_cluster(u32 barrier, u32 cta_rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(barrier),
      "r"(cta_rank)
      : "memory");
}

// mbarrier.try_wait.parity: true once the phase with this parity has completed; may sleep before it returns
// false
SLUICE_DEVICE bool mbarrier_try_wait_parity(u32 barrier, u32 parity) {
  u32 done;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

SLUICE_DEVICE void mbarrier_wait_parity(u32 barrier, u32 parity) {
  while (!mbarrier_try_wait_parity(barrier, parity)) {
  }
}

}  // namespace sluice::ptx
