// SPDX-License-Identifier: Apache-2.0
// From the sums of warps, and of a cluster's CTAs, to D: added up in fixed order in fp32, then the exponents
// that the codes had, scales of whole rows, bias, activation.
#pragma once

#include <sluice/spec/packed_codes.h>
#include <sluice/device/element.cuh>
#include <sluice/device/epilogue/activation.cuh>
#include <sluice/device/mixed/tile_sums.cuh>
#include <sluice/device/ptx/cluster_memory.cuh>
#include <sluice/device/ptx/sync.cuh>

namespace sluice::mixed {

template <NarrowConfig kConfig>
class Finish {
  using S = Shape<kConfig>;
  using Codes = typename S::Codes;
  static constexpr int kQuads = S::kRows / 4 * S::kTokens;  // of four neighbouring rows of one token
  static constexpr int kStride = reduction_stride(kConfig);

 public:
  SLUICE_DEVICE Finish(const NarrowParams& params, const Place& at, u32 smem)
      : params_(params), at_(at), smem_(smem) {}

  /// All threads of the CTA; no ring is in use any more once the first barrier is passed.
  SLUICE_DEVICE void run(const TileSums<kConfig>& warp) const {
    __syncthreads();
    write(warp);
    __syncthreads();
    if constexpr (kConfig.parts == 1) {
      for (int quad = thread(); quad < kQuads; quad += threads_of(kConfig)) store(quad, sum_of_warps(quad));
    } else {
      ptx::cluster_wait_acquire();  // everyone has begun: their memory may be written
      for (int quad = thread(); quad < kQuads; quad += threads_of(kConfig)) push(quad, sum_of_warps(quad));
      ptx::cluster_arrive_release();
      ptx::cluster_wait_acquire();
      for (int i = thread(); i < kQuads / kConfig.parts; i += threads_of(kConfig))
        store(at_.rank * (kQuads / kConfig.parts) + i, sum_of_parts(i));
    }
  }

 private:
  SLUICE_DEVICE static int thread() { return static_cast<int>(threadIdx.x); }
  SLUICE_DEVICE u32 address(int warp, int token, int row) const {
    return smem_ + 4 * ((warp * S::kTokens + token) * kStride + row);
  }
  SLUICE_DEVICE u32 incoming(int part, int index) const {
    return smem_ + incoming_offset(kConfig) + 16 * (part * (kQuads / kConfig.parts) + index);
  }

  SLUICE_DEVICE void write(const TileSums<kConfig>& warp) const {
    constexpr float kUpper = power_of_two(Codes::kUpperExponent),
                    kLower = power_of_two(Codes::kLowerExponent);
    const int row = at_.lane / 4, token = at_.lane % 4 * 2;
#pragma unroll
    for (int block = 0; block < S::kBlocks; ++block)
#pragma unroll
      for (int j = 0; j < S::kTokenBlocks; ++j) {
        const u32 to = address(at_.warp, 8 * j + token, kBlockRows * block + row);
        const float(&sums)[4] = warp.sums[block][j];
        ptx::store_shared(to, sums[0] * kUpper);
        ptx::store_shared(to + 4 * kStride, sums[1] * kUpper);
        ptx::store_shared(to + 4 * 8, sums[2] * kLower);
        ptx::store_shared(to + 4 * (kStride + 8), sums[3] * kLower);
      }
  }
  SLUICE_DEVICE static void add(ptx::Float4& sum, const ptx::Float4& other) {
    sum.x += other.x;
    sum.y += other.y;
    sum.z += other.z;
    sum.w += other.w;
  }
  SLUICE_DEVICE ptx::Float4 sum_of_warps(int quad) const {
    const int token = quad / (S::kRows / 4), row = quad % (S::kRows / 4) * 4;
    ptx::Float4 sum = ptx::load_shared_v4(address(0, token, row));
#pragma unroll
    for (int warp = 1; warp < kConfig.warps; ++warp) add(sum, ptx::load_shared_v4(address(warp, token, row)));
    return sum;
  }
  SLUICE_DEVICE void push(int quad, const ptx::Float4& sum) const {
    constexpr int kShare = kQuads / kConfig.parts;
    ptx::store_cluster(ptx::map_to_cta(incoming(at_.rank, quad % kShare), static_cast<u32>(quad / kShare)),
                       sum);
  }
  SLUICE_DEVICE ptx::Float4 sum_of_parts(int index) const {
    ptx::Float4 sum = ptx::load_shared_v4(incoming(0, index));
#pragma unroll
    for (int part = 1; part < kConfig.parts; ++part) add(sum, ptx::load_shared_v4(incoming(part, index)));
    return sum;
  }

  SLUICE_DEVICE float finished(float sum, int row) const {
    if (row >= params_.n) return 0.0f;
    if constexpr (S::kGroup == 0) {
      const u8* scales = static_cast<const u8*>(params_.weights) +
                         (row / kStripRows + 1) * params_.strip_bytes - row_scale_bytes(kConfig.weights) -
                         row_zero_bytes(kConfig.weights);
      sum *= load_element<kConfig.weights.scale>(scales, scale_slot(row % kStripRows, 0));
    }
    if constexpr (kConfig.bias == Bias::column) sum += load_element<kConfig.bias_type>(params_.bias, row);
    return activate<kConfig.activation>(sum);
  }
  SLUICE_DEVICE void store(int quad, const ptx::Float4& sum) const {
    const int token = at_.first_token + quad / (S::kRows / 4);
    const int row = at_.first_row + quad % (S::kRows / 4) * 4;
    if (token >= params_.m || row >= params_.n) return;
    const float values[4] = {finished(sum.x, row), finished(sum.y, row + 1), finished(sum.z, row + 2),
                             finished(sum.w, row + 3)};
    const i64 index = token * params_.ld_d + row;
    if (params_.vectors) {
      store_element_quad<kConfig.d>(params_.d, index, values);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (row + i < params_.n) store_element<kConfig.d>(params_.d, index + i, values[i]);
    }
  }

  const NarrowParams& params_;
  const Place& at_;
  u32 smem_;
};

}  // namespace sluice::mixed
