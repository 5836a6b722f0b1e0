// SPDX-License-Identifier: Apache-2.0
// How much dynamic shared memory a launch asks for, so that its CTAs spread over the SMs. A launch that
// begins while the one before it leaves puts each CTA where there is room at that moment: two on the first
// free SMs and none on those that are free half a microsecond later. Where two fit on an SM and one on each
// is enough for all, that costs a quarter of the time (docs/findings/chain-timelines.md); so then two do not
// fit. A fuller grid keeps what it uses: it is spread already. Called where kernels are made.
#pragma once

#include <algorithm>

#include <sluice/host/driver/launch.h>
#include <sluice/host/planner/cluster_grid.h>
#include <sluice/plan.h>
#include <sluice/spec/smem_room.h>

namespace sluice {

/// The least with which no second CTA of the kind fits: each takes 1 KB more than it asks for. Beside a CTA
/// of another kernel with up to 112 KB it still fits.
inline constexpr int kAloneOnSm = kSmemOfSm / 2 - 1024 + 128;

/// `smem`: what the kernel uses. Of `shape`, smem_bytes is not looked at.
inline u32 spread_smem_bytes(i64 smem, const LaunchShape& shape, const DeviceInfo& device) {
  const int cluster = static_cast<int>(shape.cluster_x);
  const i64 clusters = clusters_at_once(cluster, device);
  const bool one_wave = i64{shape.grid_x} * shape.grid_y <= clusters * cluster;
  return static_cast<u32>(shape.dependent && one_wave ? std::max<i64>(smem, kAloneOnSm) : smem);
}

}  // namespace sluice
