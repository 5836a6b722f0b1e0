// SPDX-License-Identifier: Apache-2.0
// Shared memory of the other CTAs of a cluster. PTX ISA: mapa, st.async (sm_90).
#pragma once

#include <sluice/device/ptx/global.cuh>

namespace sluice::ptx {

// mapa.shared::cluster: the address in CTA `rank` that corresponds to a shared address of this one
SLUICE_DEVICE u32 map_to_cta(u32 address, u32 rank) {
  u32 mapped;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}

// st.async: stores 16 bytes to `address` and counts them on `barrier`; both are mapped addresses in the same
// CTA
SLUICE_DEVICE void store_async(u32 address, const Float4& v, u32 barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
          address),
      "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(barrier)
      : "memory");
}

// A plain store; it becomes visible by the cluster barrier.
SLUICE_DEVICE void store_cluster(u32 address, const Float4& v) {
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(v.x), "f"(v.y),
               "f"(v.z), "f"(v.w)
               : "memory");
}

// st.async: one word, counted as 4 bytes on `barrier`
SLUICE_DEVICE void store_async(u32 address, u32 word, u32 barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(address),
      "r"(word), "r"(barrier)
      : "memory");
}

SLUICE_DEVICE Float4 load_shared_v4(u32 address) {
  Float4 v;
  asm volatile("ld.shared::cta.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

}  // namespace sluice::ptx
