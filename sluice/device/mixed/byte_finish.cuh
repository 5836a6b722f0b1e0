// SPDX-License-Identifier: Apache-2.0
// From the sums of warpgroups, and of a cluster's CTAs, to D. Each CTA leaves its sums in its own shared
// memory; when all have, each reads its share of the tile from everyone, adds it up in the order of k, scales
// it and stores it. Nothing is sent, so no memory is needed beside the rings.
#pragma once

#include <sluice/spec/packed_codes.h>
#include <sluice/device/element.cuh>
#include <sluice/device/epilogue/activation.cuh>
#include <sluice/device/math/byte_codes.cuh>
#include <sluice/device/mixed/byte_place.cuh>
#include <sluice/device/mixed/tile_sums.cuh>
#include <sluice/device/ptx/cluster_memory.cuh>
#include <sluice/device/ptx/shared.cuh>

namespace sluice::mixed {

template <ByteConfig kConfig>
class ByteFinish {
  using S = ByteShape<kConfig>;
  static constexpr int kRows = tile_rows(kConfig), kRowQuads = kRows / 4, kQuads = kRowQuads * S::kTokens;
  static constexpr int kParts = kConfig.parts;

 public:
  SLUICE_DEVICE ByteFinish(const ByteParams& params, const BytePlace<kConfig>& at)
      : params_(params), at_(at) {}

  /// Math threads, first thing: what the end needs of global memory, an element of each vector a thread.
  SLUICE_DEVICE void fetch_vectors() {
    const int thread = static_cast<int>(threadIdx.x), row = at_.first_strip * kStripRows + thread;
    if (thread < kRows && row < params_.n) {
      if constexpr (S::kGroup == 0) {
        if (params_.k_tiles > 0) {
          const u8* scales = static_cast<const u8*>(params_.weights) +
                             (row / kStripRows + 1) * params_.strip_bytes - row_scale_bytes(kConfig.weights) -
                             row_zero_bytes(kConfig.weights);
          row_scale_ = load_element<kConfig.weights.scale>(scales, scale_slot(row % kStripRows, 0));
        }
      }
      if constexpr (kConfig.bias == Bias::column) bias_ = load_element<kConfig.bias_type>(params_.bias, row);
    }
    if constexpr (kConfig.scale_x == ScaleMode::tensor) token_scale_ = load_element<DType::fp32>(params_.scale_x, 0);
    if constexpr (kConfig.scale_x == ScaleMode::vector)
      if (thread < S::kTokens && at_.first_token + thread < params_.m)
        token_scale_ = load_element<DType::fp32>(params_.scale_x, at_.first_token + thread);
  }

  /// Math threads, when nobody in the CTA reads or fills the rings any more.
  SLUICE_DEVICE void leave(const float (&sums)[S::kTokens / 2]) const {
    leave_vectors();
    const int row = at_.strip() * kStripRows + at_.block() * kBlockRows + at_.lane() / 4;
    const int token = at_.k_group() * S::kTokens + at_.lane() % 4 * 2;
    const u32 to = address(token, row);
    constexpr int kToken = 4 * sums_stride(kConfig);
#pragma unroll
    for (int i = 0; i < S::kTokens / 2; ++i)
      ptx::store_shared(to + (i / 4 * 8 + i % 2) * kToken + i % 4 / 2 * 32, sums[i]);
  }

  /// Math threads, when all of the cluster have left theirs.
  SLUICE_DEVICE void store_share() const {
    const int begin = at_.rank * kQuads / kParts, end = (at_.rank + 1) * kQuads / kParts;
#pragma unroll 2
    for (int quad = begin + static_cast<int>(threadIdx.x); quad < end; quad += S::kMathThreads) {
      const int token = quad / kRowQuads, row = quad % kRowQuads * 4;
      if (at_.first_token + token >= params_.m || at_.first_strip * kStripRows + row >= params_.n) continue;
      store(token, row, whole_sum(token, row));
    }
  }

 private:
  SLUICE_DEVICE u32 address(int token, int row) const {
    return at_.smem + 4 * (token * sums_stride(kConfig) + row);
  }
  SLUICE_DEVICE ptx::Float4 whole_sum(int token, int row) const {
    ptx::Float4 parts[kParts * S::kKGroups];  // all reads are on their way before the first is needed
#pragma unroll
    for (int i = 0; i < kParts * S::kKGroups; ++i) {
      const u32 from = address(i % S::kKGroups * S::kTokens + token, row);
      if constexpr (kParts > 1)
        parts[i] = ptx::load_cluster_v4(ptx::map_to_cta(from, static_cast<u32>(i / S::kKGroups)));
      else
        parts[i] = ptx::load_shared_v4(from);
    }
    ptx::Float4 sum = parts[0];
#pragma unroll
    for (int i = 1; i < kParts * S::kKGroups; ++i) {
      sum.x += parts[i].x;
      sum.y += parts[i].y;
      sum.z += parts[i].z;
      sum.w += parts[i].w;
    }
    return sum;
  }

  SLUICE_DEVICE u32 vector(int index) const { return at_.smem + vector_offset(kConfig) + 4 * index; }
  SLUICE_DEVICE void leave_vectors() const {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < kRows) {
      if constexpr (kConfig.bias == Bias::column) ptx::store_shared(vector(thread), bias_);
      if constexpr (S::kGroup == 0) ptx::store_shared(vector(kRows + thread), row_scale_);
    }
    if (thread < S::kTokens)
      ptx::store_shared(vector(2 * kRows + thread), token_scale_ * power_of_two(kByteExponent));
  }
  /// `token`, `row`: in the tile.
  SLUICE_DEVICE float finished(float sum, float token_scale, float row_scale, float bias) const {
    if constexpr (S::kGroup == 0) sum *= row_scale;
    sum *= token_scale;
    if constexpr (kConfig.bias == Bias::column) sum += bias;
    return activate<kConfig.activation>(sum);
  }
  SLUICE_DEVICE void store(int token_in_tile, int row_in_tile, const ptx::Float4& sum) const {
    const int token = at_.first_token + token_in_tile, row = at_.first_strip * kStripRows + row_in_tile;
    ptx::Float4 bias{}, scale{};
    if constexpr (kConfig.bias == Bias::column) bias = ptx::load_shared_v4(vector(row_in_tile));
    if constexpr (S::kGroup == 0) scale = ptx::load_shared_v4(vector(kRows + row_in_tile));
    const float token_scale = ptx::load_shared(vector(2 * kRows + token_in_tile));
    const float values[4] = {
        finished(sum.x, token_scale, scale.x, bias.x), finished(sum.y, token_scale, scale.y, bias.y),
        finished(sum.z, token_scale, scale.z, bias.z), finished(sum.w, token_scale, scale.w, bias.w)};
    const i64 index = token * params_.ld_d + row;
    if (params_.vectors) {
      store_element_quad<kConfig.d>(params_.d, index, values);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (row + i < params_.n) store_element<kConfig.d>(params_.d, index + i, values[i]);
    }
  }

  const ByteParams& params_;
  const BytePlace<kConfig>& at_;
  float bias_ = 0.0f, row_scale_ = 1.0f, token_scale_ = 1.0f;  // of row, and token, number threadIdx.x
};

}  // namespace sluice::mixed
