// SPDX-License-Identifier: Apache-2.0
// TMA's im2col instructions, and barrier waits with a time limit.
#pragma once

#include <sluice/device/ptx/mbarrier.cuh>
#include <sluice/device/ptx/sync.cuh>
#include <sluice/device/ptx/tma.cuh>

#include "maps.h"

namespace probe {

using sluice::u16;
using sluice::u32;
using sluice::u64;
namespace ptx = sluice::ptx;

inline constexpr u64 kMostWaitNs = 200'000'000;

SLUICE_DEVICE u32 shared_address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}
SLUICE_DEVICE u64 nanoseconds() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// Waits for a phase. Returns false if it did not complete within kMostWaitNs.
SLUICE_DEVICE bool wait_bounded(u32 barrier, u32 parity) {
  if (ptx::mbarrier_try_wait_parity(barrier, parity)) return true;
  const u64 begin = nanoseconds();
  while (!ptx::mbarrier_try_wait_parity(barrier, parity))
    if (nanoseconds() - begin > kMostWaitNs) return false;
  return true;
}

// cp.async.bulk.tensor.{3,4,5}d ... im2col. Signals `barrier` with the bytes of the whole box.
template <int kSpatial>
SLUICE_DEVICE void load_im2col(u32 destination, const CUtensorMap& map, int c, const Pixel& p,
                               const Offsets& o, u32 barrier) {
  if constexpr (kSpatial == 1)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5}], [%2], {%6};" ::"r"(destination),
        "l"(&map), "r"(barrier), "r"(c), "r"(p.w), "r"(p.n), "h"(o.w)
        : "memory");
  else if constexpr (kSpatial == 2)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(destination),
        "l"(&map), "r"(barrier), "r"(c), "r"(p.w), "r"(p.h), "r"(p.n), "h"(o.w), "h"(o.h)
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};" ::"r"(destination),
        "l"(&map), "r"(barrier), "r"(c), "r"(p.w), "r"(p.h), "r"(p.d), "r"(p.n), "h"(o.w), "h"(o.h), "h"(o.d)
        : "memory");
}

// The multicast form, which writes to and signals every CTA of `mask`.
template <int kSpatial>
SLUICE_DEVICE void load_im2col_multicast(u32 destination, const CUtensorMap& map, int c, const Pixel& p,
                                         const Offsets& o, u32 barrier, u16 mask) {
  if constexpr (kSpatial == 1)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], {%6}, %7;" ::"r"(destination),
        "l"(&map), "r"(barrier), "r"(c), "r"(p.w), "r"(p.n), "h"(o.w), "h"(mask)
        : "memory");
  else if constexpr (kSpatial == 2)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8}, %9;" ::"r"(destination),
        "l"(&map), "r"(barrier), "r"(c), "r"(p.w), "r"(p.h), "r"(p.n), "h"(o.w), "h"(o.h), "h"(mask)
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10}, %11;" ::"r"(destination),
        "l"(&map), "r"(barrier), "r"(c), "r"(p.w), "r"(p.h), "r"(p.d), "r"(p.n), "h"(o.w), "h"(o.h), "h"(o.d),
        "h"(mask)
        : "memory");
}

// cp.async.bulk.tensor.2d.shared::cluster.global.tile
SLUICE_DEVICE void load_tiled(u32 destination, const CUtensorMap& map, int c, int row, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4}], [%2];" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(c), "r"(row)
      : "memory");
}
SLUICE_DEVICE void load_tiled_multicast(u32 destination, const CUtensorMap& map, int c, int row, u32 barrier,
                                        u16 mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(destination),
      "l"(&map), "r"(barrier), "r"(c), "r"(row), "h"(mask)
      : "memory");
}

}  // namespace probe
