// SPDX-License-Identifier: Apache-2.0
// The copy engine: copies tiles of a tensor map to and from shared memory, or adds them to global memory. PTX
// ISA 9.7.9.27 (sm_90).
#pragma once

#include <sluice/spec/params.h>

namespace sluice::ptx {

/// Element coordinates, innermost first. Parts of the box outside the tensor are read as zero and never
/// written.
struct TmaBox {
  int inner, outer, batch;
};

// prefetch.tensormap: loads the 128-byte descriptor into the descriptor cache
SLUICE_DEVICE void prefetch_tensormap(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// cp.async.bulk.tensor.3d.shared::cluster.global.tile: completes on `barrier` with the bytes of the whole box
SLUICE_DEVICE void tma_load(u32 destination, const TensorMap& map, TmaBox box, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, "
      "%5}], "
      "[%2];" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(box.inner), "r"(box.outer), "r"(box.batch)
      : "memory");
}

// tma_load with .multicast::cluster: writes the same offsets, and signals, in every CTA of `cta_mask`
SLUICE_DEVICE void tma_load_multicast(u32 destination, const TensorMap& map, TmaBox box, u32 barrier,
                                      u16 cta_mask) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(box.inner), "r"(box.outer), "r"(box.batch), "h"(cta_mask)
      : "memory");
}

// tma_load and tma_load_multicast for a 5-dimensional map: coordinates two and three are 0, and box.outer is
// the fourth
SLUICE_DEVICE void tma_load_gated(u32 destination, const TensorMap& map, TmaBox box, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %6, "
      "%6, %4, %5}], [%2];" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(box.inner), "r"(box.outer), "r"(box.batch), "r"(0)
      : "memory");
}
SLUICE_DEVICE void tma_load_gated_multicast(u32 destination, const TensorMap& map, TmaBox box, u32 barrier,
                                            u16 cta_mask) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %7, %7, %4, %5}], [%2], %6;" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(box.inner), "r"(box.outer), "r"(box.batch), "h"(cta_mask), "r"(0)
      : "memory");
}

// tma_load and tma_load_multicast with .L2::cache_hint; `policy`: from createpolicy
SLUICE_DEVICE void tma_load(u32 destination, const TensorMap& map, TmaBox box, u32 barrier, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%3, %4, %5}], [%2], %6;" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(box.inner), "r"(box.outer), "r"(box.batch), "l"(policy)
      : "memory");
}
SLUICE_DEVICE void tma_load_multicast(u32 destination, const TensorMap& map, TmaBox box, u32 barrier,
                                      u16 cta_mask, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6, %7;" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(box.inner), "r"(box.outer), "r"(box.batch), "h"(cta_mask), "l"(policy)
      : "memory");
}

// cp.async.bulk.shared::cluster.global: contiguous bytes, 16-byte aligned on both sides; completes on
// `barrier` with its bytes. `policy`: from createpolicy.
SLUICE_DEVICE void bulk_load(u32 destination, const void* source, u32 bytes, u32 barrier, u64 policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
      "[%3], "
      "%4;" ::"r"(destination),
      "l"(source), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}

// cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group
SLUICE_DEVICE void tma_store(const TensorMap& map, TmaBox box, u32 source) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map),
      "r"(source), "r"(box.inner), "r"(box.outer), "r"(box.batch)
      : "memory");
}

// cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group: adds the box to the tensor, in the
// tensor's type; each element's addition is atomic. In fp32, subnormals are flushed to zero before and after.
SLUICE_DEVICE void tma_add(const TensorMap& map, TmaBox box, u32 source) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
          &map),
      "r"(source), "r"(box.inner), "r"(box.outer), "r"(box.batch)
      : "memory");
}

SLUICE_DEVICE void bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// cp.async.bulk.wait_group.read: all but the newest kPending groups of this thread have read their shared
// memory
template <int kPending>
SLUICE_DEVICE void bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// cp.async.bulk.wait_group: all but the newest kPending groups have also been written
template <int kPending>
SLUICE_DEVICE void bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

// fence.proxy.async.shared::cta: makes this thread's writes to shared memory visible to the copy engine after
// the next barrier
SLUICE_DEVICE void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace sluice::ptx
