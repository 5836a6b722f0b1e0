// SPDX-License-Identifier: Apache-2.0
// The norm of tokens in front of a product (MixedProblem::norm_x), but for gamma, which tile_sums.cuh
// multiplies by: each warp adds up the squares of the tokens that it multiplies, from its ring, and what
// comes of a token's sums is divided by their root mean square. The order is the same on every run: a lane's
// k, lanes pairwise, warps (of a cluster's CTA one after the other, else pairwise), CTAs of the cluster
// pairwise.
#pragma once

#include <sluice/device/element.cuh>
#include <sluice/device/mixed/place.cuh>
#include <sluice/device/ptx/cluster_memory.cuh>
#include <sluice/device/ptx/shared.cuh>

namespace sluice::mixed {

template <NarrowConfig kConfig>
class TokenSquares {
  using S = Shape<kConfig>;
  static constexpr int kWarps = kConfig.warps, kParts = kConfig.parts;
  static constexpr int kQuads = ceil_div(S::kHeld, 4);  // of tokens

 public:
  /// `smem`: of the CTA.
  SLUICE_DEVICE explicit TokenSquares(u32 smem) : slots_(smem + squares_offset(kConfig)) {}

  /// A warp's k-tile. Whatever order a token's pieces have in its 256 bytes, a lane has four elements.
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
  /// When the last tile is added, by the whole warp. It is there behind the CTA's next barrier.
  SLUICE_DEVICE void leave(const Place& at) const {
#pragma unroll
    for (int t = 0; t < S::kHeld; ++t) {
      float sum = sums_[t];
#pragma unroll
      for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
      if (at.lane == 0) ptx::store_shared(of_warp(at.warp) + 4 * t, sum);
    }
  }
  /// By all threads of a CTA of a cluster, when all have left theirs: the CTA's sums, to each of the cluster.
  SLUICE_DEVICE void send(const Place& at) const {
    const int thread = static_cast<int>(threadIdx.x), quad = thread % kQuads;
    if (thread >= kParts * kQuads) return;
    ptx::Float4 sum = ptx::load_shared_v4(of_warp(0) + 16 * quad);
    for (int warp = 1; warp < kWarps; ++warp) {
      const ptx::Float4 more = ptx::load_shared_v4(of_warp(warp) + 16 * quad);
      sum = {sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w};
    }
    ptx::store_cluster(ptx::map_to_cta(of_part(at.rank) + 16 * quad, static_cast<u32>(thread / kQuads)), sum);
  }

  /// 1 / sqrt(mean of a token's squares + epsilon).
  SLUICE_DEVICE float inverse_root(const NarrowParams& params, int token) const {
    constexpr int kSums = kParts > 1 ? kParts : kWarps;
    float sums[kSums];
#pragma unroll
    for (int i = 0; i < kSums; ++i)
      sums[i] = __uint_as_float(ptx::load_shared_u32((kParts > 1 ? of_part(i) : of_warp(i)) + 4 * token));
#pragma unroll
    for (int step = 1; step < kSums; step *= 2)
#pragma unroll
      for (int i = 0; i + step < kSums; i += 2 * step) sums[i] += sums[i + step];
    return __frsqrt_rn(__fdiv_rn(sums[0], static_cast<float>(params.k)) + params.epsilon);
  }

 private:
  SLUICE_DEVICE u32 of_warp(int warp) const {
    return slots_ + 16 * kQuads * warp;
  }
  SLUICE_DEVICE u32 of_part(int part) const {
    return of_warp(kWarps + part);
  }

  u32 slots_;
  float sums_[S::kHeld] = {};  // of this lane
};

}  // namespace sluice::mixed
