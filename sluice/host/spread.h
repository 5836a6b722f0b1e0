// SPDX-License-Identifier: Apache-2.0
// Shared memory that makes CTAs spread. The CTAs of a launch that begins early go where the launch before has
// left room: two or three on each of the first SMs, and none on the others, so that half of the GPU would do
// the work (H200, a layer of Llama-3-8B, e4m3, one token: 61.6 us, spread 54.9; docs/findings/chains.md).
// Asking for more shared memory than is used leaves room for one on each. Called where kernels are prepared.
#pragma once

#include <algorithm>

#include <sluice/plan.h>
#include <sluice/spec/smem_room.h>

namespace sluice {

/// A grid of `ctas`, in clusters.
struct SpreadGrid {
  i64 ctas = 0;
  int cluster = 1;
};

/// Of a CTA that uses `smem` bytes: if every one can have an SM to itself, so much that no two fit on one. A
/// fuller grid keeps what it uses: it is spread already, and might no longer fit beside the launch before.
constexpr i64 spread_smem_bytes(i64 smem, const SpreadGrid& grid, const DeviceInfo& device) {
  constexpr i64 kReserved = 1024;  // of each CTA, beside what it asks for
  constexpr i64 kAlone = kSmemOfSm / 2 - kReserved + 128;
  const i64 sms = grid.cluster == 1 ? device.sm_count : grid.cluster == 2 ? 2 * device.max_clusters_of_2 : 0;
  return grid.ctas <= sms ? std::max(smem, kAlone) : smem;
}

}  // namespace sluice
