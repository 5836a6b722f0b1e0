// SPDX-License-Identifier: Apache-2.0
// How much dynamic shared memory a launch asks for, so that its CTAs spread over the SMs. A launch that
// begins while the one before it leaves puts each CTA where there is room at that moment: two on the first
// free SMs and none on those that are free half a microsecond later. Where two fit on an SM and one on each
// is enough for all, that costs a quarter of the time (docs/findings/chain-timelines.md); so then two do not
// fit. Called where kernels are made.
#pragma once

#include <algorithm>

#include <sluice/plan.h>

namespace sluice {

/// The least with which no second CTA of the kind fits: an SM has 228 KB, of which the driver keeps 1 for
/// each. Beside a CTA of another kernel with up to 112 KB it still fits.
inline constexpr int kAloneOnSm = (113 << 10) + 128;

/// `smem`: what the kernel uses. `dependent`: it may begin before the launch before it has ended.
inline int spread_smem_bytes(int smem, i64 ctas, int cluster, bool dependent, const DeviceInfo& device) {
  const i64 clusters = cluster == 1   ? device.sm_count
                       : cluster == 2 ? device.max_clusters_of_2
                       : cluster <= 4 ? device.max_clusters_of_4
                                      : device.max_clusters_of_8;
  const bool one_wave = ctas <= clusters * cluster;
  return dependent && one_wave ? std::max(smem, kAloneOnSm) : smem;
}

}  // namespace sluice
