// SPDX-License-Identifier: Apache-2.0
// From the sums of warpgroups, and of a cluster's CTAs, to D: added up through shared memory in fp32, always
// in the same order, then scaled and stored. Each CTA of a cluster finishes a share of the tile; what others
// send it lies beside the rings, because it comes while those are in use.
#pragma once

#include <sluice/device/element.cuh>
#include <sluice/device/epilogue/activation.cuh>
#include <sluice/device/math/byte_codes.cuh>
#include <sluice/device/math/code_fragments.cuh>
#include <sluice/device/mixed/byte_place.cuh>
#include <sluice/device/mixed/outputs.cuh>
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

  /// Math threads, before they multiply: what the end needs of global memory goes to shared memory, an
  /// element of each vector a thread. `wait`: for launches that write the tokens and their scales.
  template <class Wait>
  SLUICE_DEVICE void fetch_vectors(const Wait& wait) const {
    float bias = 0.0f, scale = 1.0f, token_scale = 1.0f;
    const int thread = this->thread(), row = at_.first_strip * kStripRows + thread;
    if (thread < kRows && row < params_.n) {
      if constexpr (S::kGroup == 0)
        if (params_.k_tiles > 0) scale = row_scale<kConfig.weights>(params_, row);
      if constexpr (kConfig.bias == Bias::column) bias = load_element<kConfig.bias_type>(params_.bias, row);
    }
    wait();
    if constexpr (kConfig.scale_x == ScaleMode::tensor)
      token_scale = load_element<DType::fp32>(params_.scale_x, 0);
    if constexpr (kConfig.scale_x == ScaleMode::vector)
      if (thread < S::kTokens && at_.first_token + thread < params_.m)
        token_scale = load_element<DType::fp32>(params_.scale_x, at_.first_token + thread);
    if (thread < kRows) {
      if constexpr (kConfig.bias == Bias::column) ptx::store_shared(vector(thread), bias);
      if constexpr (S::kGroup == 0) ptx::store_shared(vector(kRows + thread), scale);
    }
    if (thread < S::kTokens)
      ptx::store_shared(vector(2 * kRows + thread), token_scale * exact_power(kByteExponent));
  }

  /// Math threads, when nobody in the CTA reads or fills the rings any more.
  SLUICE_DEVICE void leave(const float (&sums)[S::kTokens / 2]) const {
    const int row = at_.strip() * kStripRows + at_.block() * kBlockRows + at_.lane() / 4;
    const u32 to = address(at_.k_group(), at_.lane() % 4 * 2, row);
    constexpr int kToken = 4 * sums_stride(kConfig);
#pragma unroll
    for (int i = 0; i < S::kTokens / 2; ++i)
      ptx::store_shared(to + (i / 4 * 8 + i % 2) * kToken + i % 4 / 2 * 32, sums[i]);
  }

  /// Math threads, when those of the CTA have left theirs and all CTAs of the cluster have begun: every other
  /// CTA gets this one's sums of its share.
  SLUICE_DEVICE void send() const {
#pragma unroll
    for (int i = 0; i < kParts - 1; ++i) {
      const int to = (at_.rank + 1 + i) % kParts;
#pragma unroll 2
      for (int quad = share_begin(to) + thread(); quad < share_begin(to + 1); quad += S::kMathThreads)
        ptx::store_cluster(ptx::map_to_cta(incoming(at_.rank - (at_.rank > to), quad - share_begin(to)),
                                           static_cast<u32>(to)),
                           own_sum(quad));
    }
  }

  /// Math threads, when all that was sent has come.
  SLUICE_DEVICE void store_share() const {
#pragma unroll 2
    for (int quad = share_begin(at_.rank) + thread(); quad < share_begin(at_.rank + 1);
         quad += S::kMathThreads) {
      const int token = quad / kRowQuads, row = quad % kRowQuads * 4;
      if (at_.first_token + token >= params_.m || at_.first_strip * kStripRows + row >= params_.n) continue;
      store(token, row, whole_sum(quad));
    }
  }

 private:
  static SLUICE_DEVICE int thread() {
    return static_cast<int>(threadIdx.x);
  }
  static SLUICE_DEVICE int share_begin(int rank) {
    return rank * kQuads / kParts;
  }
  SLUICE_DEVICE u32 address(int k_group, int token, int row) const {
    return at_.smem + 4 * ((k_group * S::kTokens + token) * sums_stride(kConfig) + row);
  }
  SLUICE_DEVICE u32 incoming(int slot, int index) const {
    return at_.smem + incoming_offset(kConfig) + 16 * (slot * ceil_div(kQuads, kParts) + index);
  }
  static SLUICE_DEVICE void add(ptx::Float4& sum, const ptx::Float4& other) {
    sum.x += other.x;
    sum.y += other.y;
    sum.z += other.z;
    sum.w += other.w;
  }
  SLUICE_DEVICE ptx::Float4 own_sum(int quad) const {
    const int token = quad / kRowQuads, row = quad % kRowQuads * 4;
    ptx::Float4 sum = ptx::load_shared_v4(address(0, token, row));
#pragma unroll
    for (int i = 1; i < S::kKGroups; ++i) add(sum, ptx::load_shared_v4(address(i, token, row)));
    return sum;
  }
  SLUICE_DEVICE ptx::Float4 whole_sum(int quad) const {
    if constexpr (kParts == 1) return own_sum(quad);
    ptx::Float4 sum{};  // zero is no part: the order is that of k
    const ptx::Float4 own = own_sum(quad);
#pragma unroll
    for (int part = 0; part < kParts; ++part)
      add(sum, part == at_.rank
                   ? own
                   : ptx::load_shared_v4(incoming(part - (part > at_.rank), quad - share_begin(at_.rank))));
    return sum;
  }

  SLUICE_DEVICE u32 vector(int index) const {
    return at_.smem + vector_offset(kConfig) + 4 * index;
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
    store_outputs<kConfig.d>(params_, token, row, values);
  }

  const ByteParams& params_;
  const BytePlace<kConfig>& at_;
};

}  // namespace sluice::mixed
