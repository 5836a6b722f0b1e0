// SPDX-License-Identifier: Apache-2.0
// The RMS norm of tokens before a product (Problem::norm_a), except for gamma, which tile_sums.cuh
// multiplies in. Each warp adds up the squares of its tokens from its ring; a token's sums are divided by the
// root mean square at the end. The order of additions is fixed: a lane's k, lanes pairwise, warps, CTAs of
// the cluster.
#pragma once

#include <sluice/device/element.cuh>
#include <sluice/device/packed/place.cuh>
#include <sluice/device/ptx/cluster_memory.cuh>
#include <sluice/device/ptx/shared.cuh>

namespace sluice::packed {

/// Address of a slot of squares in a CTA's shared memory: one per warp and, in a cluster, one per CTA.
template <NarrowConfig kConfig>
SLUICE_DEVICE u32 squares_slot(u32 smem, int slot) {
  return smem + squares_offset(kConfig) + squares_slot_bytes(kConfig) * slot;
}

/// The sums of squares of one warp.
template <NarrowConfig kConfig>
class TokenSquares {
  using S = Shape<kConfig>;

 public:
  /// Adds the squares of a k-tile. A lane takes four elements of each token; the order of pieces in the
  /// token's 256 bytes does not matter.
  SLUICE_DEVICE void add_tile(u32 stage, int lane) {
    const u32 own = stage + lane / 16 * (S::kTokenBytes / 2) + lane % 16 * 8;
#pragma unroll
    for (int t = 0; t < S::kHeld; ++t) {
      u32 low, high;
      ptx::load_shared_v2(own + t * 128, low, high);
      const Pair a = unpack_16bit<kConfig.x>(low), b = unpack_16bit<kConfig.x>(high);
      sums_[t] = fmaf(b.y, b.y, fmaf(b.x, b.x, fmaf(a.y, a.y, fmaf(a.x, a.x, sums_[t]))));
    }
  }
  /// Writes the warp's sums after its last tile. They are visible after the CTA's next barrier. `smem`: the
  /// CTA's shared memory.
  SLUICE_DEVICE void leave(u32 smem, const Place& at) const {
#pragma unroll
    for (int t = 0; t < S::kHeld; ++t) {
      float sum = sums_[t];
#pragma unroll
      for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
      if (at.lane == 0) ptx::store_shared(squares_slot<kConfig>(smem, at.warp) + 4 * t, sum);
    }
  }

 private:
  float sums_[S::kHeld] = {};  // this lane's sums
};

/// Sends the CTA's sums to each CTA of the cluster. Call from all threads, once all warps have called
/// leave().
template <NarrowConfig kConfig>
SLUICE_DEVICE void send_squares(u32 smem, const Place& at) {
  constexpr int kQuads = squares_slot_bytes(kConfig) / 16;  // quads of tokens
  const int thread = static_cast<int>(threadIdx.x), quad = thread % kQuads;
  if (thread >= kConfig.parts * kQuads) return;
  ptx::Float4 sum = ptx::load_shared_v4(squares_slot<kConfig>(smem, 0) + 16 * quad);
  for (int warp = 1; warp < kConfig.warps; ++warp) {
    const ptx::Float4 more = ptx::load_shared_v4(squares_slot<kConfig>(smem, warp) + 16 * quad);
    sum = {sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w};
  }
  const u32 to = squares_slot<kConfig>(smem, kConfig.warps + at.rank) + 16 * quad;
  ptx::store_cluster(ptx::map_to_cta(to, static_cast<u32>(thread / kQuads)), sum);
}

/// 1 / sqrt(mean of a token's squares + epsilon). Call once all sums of squares have arrived.
template <NarrowConfig kConfig>
SLUICE_DEVICE float inverse_root(const NarrowParams& params, u32 smem, int token) {
  constexpr int kFirst = kConfig.parts > 1 ? kConfig.warps : 0;
  constexpr int kSums = kConfig.parts > 1 ? kConfig.parts : kConfig.warps;
  float sums[kSums];
#pragma unroll
  for (int i = 0; i < kSums; ++i)
    sums[i] = __uint_as_float(ptx::load_shared_u32(squares_slot<kConfig>(smem, kFirst + i) + 4 * token));
#pragma unroll
  for (int step = 1; step < kSums; step *= 2)
#pragma unroll
    for (int i = 0; i + step < kSums; i += 2 * step) sums[i] += sums[i + step];
  return __frsqrt_rn(__fdiv_rn(sums[0], static_cast<float>(params.k)) + params.epsilon);
}

}  // namespace sluice::packed
