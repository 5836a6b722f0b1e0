// SPDX-License-Identifier: Apache-2.0
// What a launch asks for so that its CTAs spread over the SMs. A launch that begins while the one before it
// leaves puts each CTA where there is room at that moment: two on the first free SMs and none on those that
// are free half a microsecond later. Where two fit on an SM and one on each is enough for all, that costs a
// quarter of the time (docs/findings/chain-timelines.md); so then two do not fit. A fuller grid keeps what it
// uses: it is spread already. Called where kernels are made.
//
// What keeps two CTAs of one launch apart keeps them apart from those of the next, too, if that asks for the
// same. So there are two things to ask for (Spacing): more than half of an SM's shared memory, or more than
// half of its registers, by way of warps that leave at once. One CTA of either kind fits beside one of the
// other if its registers do: 8 warps of up to 96, say.
#pragma once

#include <algorithm>

#include <sluice/host/driver/launch.h>
#include <sluice/host/planner/dense/cluster_grid.h>
#include <sluice/plan.h>
#include <sluice/spec/config.h>
#include <sluice/spec/smem_room.h>

namespace sluice {

/// Threads of the smallest CTA of which an SM has no registers for two, or as many as there may be.
constexpr u32 alone_threads(int registers) {
  return static_cast<u32>(std::min(32 * (warps_of_sm(registers) / 2 + 1), 1024));
}

static_assert(alone_threads(kLaunchRegisters) <= kThreads,
              "kernels with roles, and wide.cuh, are alone as they are: no warp of theirs leaves at once");

/// What a kernel that uses `smem` bytes may be launched with.
inline int most_smem_bytes(const Overlap& overlap, i64 smem) {
  const bool asks = overlap.wait != Wait::none && overlap.spacing == Spacing::memory;
  return static_cast<int>(asks ? std::max<i64>(smem, kAloneOnSm) : smem);
}

/// `shape` says what the kernel uses, `registers` how many a thread has.
inline void spread_ctas(const Overlap& overlap, int registers, const DeviceInfo& device, LaunchShape& shape) {
  const int cluster = static_cast<int>(shape.cluster_x);
  const i64 at_once = i64{clusters_at_once(cluster, device)} * cluster;
  if (!shape.dependent || i64{shape.grid_x} * shape.grid_y > at_once) return;
  if (overlap.spacing == Spacing::memory) shape.smem_bytes = std::max<u32>(shape.smem_bytes, kAloneOnSm);
  if (overlap.spacing == Spacing::registers)
    shape.block_x = std::max(shape.block_x, alone_threads(registers));
}

}  // namespace sluice
