// SPDX-License-Identifier: Apache-2.0
// Spreads the CTAs of an overlapped launch over the SMs. Such a launch starts while the previous one ends,
// and the GPU places each CTA on whichever SM has room at that moment. Two CTAs may then share the first free
// SM, while an SM that is free half a microsecond later gets none. For a grid of one CTA per SM that costs a
// quarter of the time (docs/findings/chain-timelines.md). So the launch requests so many resources that two
// CTAs do not fit on an SM. Called by code that prepares or launches kernels.
//
// Grids with more CTAs than SMs have the same problem. Of 256 CTAs that fit four to an SM, all are placed on
// the first 64 free SMs, and one SM loads only 42 KB/us. With Spacing::even a launch requests so much that
// each SM gets only its share.
//
// CTAs of two consecutive launches also cannot share an SM if both request more than half of the same
// resource. Hence two kinds (Spacing): more than half of an SM's shared memory, or more than half of its
// registers, by extra warps that exit at once. CTAs of different kinds fit on one SM if their registers do: 8
// warps of up to 96, for example.
#pragma once

#include <algorithm>

#include <sluice/plan.h>
#include <sluice/plan/dense/cluster_grid.h>
#include <sluice/run/driver/launch.h>
#include <sluice/spec/config.h>
#include <sluice/spec/smem_room.h>

namespace sluice {

/// Returns the threads of the smallest CTA that takes more than half of an SM's registers; at most 1024.
constexpr u32 alone_threads(int registers) {
  return static_cast<u32>(std::min(32 * (warps_of_sm(registers) / 2 + 1), 1024));
}

static_assert(alone_threads(kLaunchRegisters) <= kThreads,
              "kernels with roles, and wide.cuh, are alone as they are: no warp of theirs leaves at once");

constexpr bool spaces_by_memory(Spacing spacing) {
  return spacing == Spacing::memory || spacing == Spacing::even;
}

/// Returns the most shared memory, in bytes, that a launch requests for a kernel that needs `smem` bytes.
inline int most_smem_bytes(const Overlap& overlap, i64 smem) {
  const bool asks = overlap.wait != Wait::none && spaces_by_memory(overlap.spacing);
  return static_cast<int>(asks ? std::max<i64>(smem, kAloneOnSm) : smem);
}

/// Enlarges `shape`, which holds what the kernel itself needs. `registers`: per thread.
inline void spread_ctas(const Overlap& overlap, int registers, const DeviceInfo& device, LaunchShape& shape) {
  if (!shape.dependent) return;
  const int cluster = static_cast<int>(shape.cluster_x);
  const i64 at_once = i64{clusters_at_once(cluster, device)} * cluster;  // CTAs that run at once, one per SM
  const i64 share = ceil_div(i64{shape.grid_x} * shape.grid_y, std::max<i64>(at_once, 1));
  if (share > (overlap.spacing == Spacing::even ? kMostEvenCtas : 1)) return;
  if (spaces_by_memory(overlap.spacing))
    shape.smem_bytes = std::max(shape.smem_bytes, static_cast<u32>(smem_of_share(static_cast<int>(share))));
  if (overlap.spacing == Spacing::registers)
    shape.block_x = std::max(shape.block_x, alone_threads(registers));
}

}  // namespace sluice
