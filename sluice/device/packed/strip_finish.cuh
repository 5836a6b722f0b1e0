// SPDX-License-Identifier: Apache-2.0
// Turns the partial sums of warpgroups, and of a cluster's CTAs, into D. It adds them up through shared
// memory in fp32, always in the same order, then scales and stores them. Each CTA of a cluster finishes a
// share of the tile. Sums of other CTAs have memory of their own next to the rings, because they arrive while
// rings are in use. The unit of a share is four rows of a token (gated: four rows of the gate and their four
// of "up").
#pragma once

#include <sluice/device/element.cuh>
#include <sluice/device/epilogue/activation.cuh>
#include <sluice/device/math/code_fragments.cuh>
#include <sluice/device/packed/outputs.cuh>
#include <sluice/device/packed/strip_place.cuh>
#include <sluice/device/ptx/cluster_memory.cuh>
#include <sluice/device/ptx/shared.cuh>

namespace sluice::packed {

template <StripConfig kConfig>
class StripFinish {
  using S = StripShape<kConfig>;
  static constexpr int kRows = tile_rows(kConfig), kColumns = tile_columns(kConfig);
  static constexpr int kHalves = kRows / kColumns;  // gated: 2
  static constexpr int kRowQuads = kColumns / 4, kQuads = kRowQuads * S::kTokens;
  static constexpr int kParts = kConfig.parts;

 public:
  SLUICE_DEVICE StripFinish(const StripParams& params, const StripPlace<kConfig>& at)
      : params_(params), at_(at) {}

  /// Call from math threads before they multiply. Copies the vectors that the epilogue needs from global to
  /// shared memory, one element of each vector per thread; every thread keeps scale_d. `wait`: the PDL wait,
  /// for earlier launches that write tokens and scales.
  template <class Wait>
  SLUICE_DEVICE void fetch_vectors(const Wait& wait) {
    float bias = 0.0f, scale = 1.0f, token_scale = 1.0f;
    const int thread = this->thread(), column = at_.first_strip * kStripRows + column_of(thread);
    if (thread < kRows && column < params_.n) {
      const bool first = kHalves == 1 || thread < kColumns;  // gated: a row of the gate
      const int row = first ? column : params_.n + column;   // row of W
      const int blob_row = first ? column : params_.strips / 2 * kStripRows + column;
      if constexpr (S::kGroup == 0)
        if (params_.k_tiles > 0) scale = row_scale<kConfig.weights>(params_, blob_row);
      if constexpr (kConfig.bias == Bias::column) bias = load_element<kConfig.bias_type>(params_.bias, row);
    }
    wait();
    if constexpr (kConfig.scale_d != ScaleMode::none)
      scale_d_ = load_element<DType::fp32>(params_.scale_d, 0);
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
      ptx::store_shared(vector(2 * kRows + thread), token_scale * exact_power(S::kSumsExponent));
  }

  /// Call from math threads once no thread of the CTA reads or fills the rings. Writes the thread's sums over
  /// the rings.
  SLUICE_DEVICE void leave(const float (&sums)[S::kTokens / 2]) const {
    const int row = at_.strip() * kStripRows + at_.block() * kBlockRows + at_.lane() / 4;
    const u32 to = address(at_.k_group(), at_.lane() % 4 * 2, row);
    constexpr int kToken = 4 * sums_stride(kConfig);
#pragma unroll
    for (int i = 0; i < S::kTokens / 2; ++i)
      ptx::store_shared(to + (i / 4 * 8 + i % 2) * kToken + i % 4 / 2 * 32, sums[i]);
  }

  /// Call from math threads once all of the CTA's sums are written and all CTAs of the cluster have started.
  /// Sends each other CTA this CTA's sums of that CTA's share.
  SLUICE_DEVICE void send() const {
#pragma unroll
    for (int i = 0; i < kParts - 1; ++i) {
      const int to = (at_.rank + 1 + i) % kParts;
#pragma unroll 2
      for (int quad = share_begin(to) + thread(); quad < share_begin(to + 1); quad += S::kMathThreads)
#pragma unroll
        for (int half = 0; half < kHalves; ++half)
          ptx::store_cluster(
              ptx::map_to_cta(incoming(at_.rank - (at_.rank > to), quad - share_begin(to), half),
                              static_cast<u32>(to)),
              own_sum(quad, half));
    }
  }

  /// Call from math threads once all sums have arrived. Stores the CTA's share.
  SLUICE_DEVICE void store_share() const {
#pragma unroll 2
    for (int quad = share_begin(at_.rank) + thread(); quad < share_begin(at_.rank + 1);
         quad += S::kMathThreads) {
      const int token = quad / kRowQuads, row = quad % kRowQuads * 4;
      if (at_.first_token + token >= params_.m || at_.first_strip * kStripRows + row >= params_.n) continue;
      store(token, row, quad, whole_sum(quad, 0));
    }
  }

 private:
  static SLUICE_DEVICE int thread() {
    return static_cast<int>(threadIdx.x);
  }
  /// Column of D, relative to the tile, for a row of the tile.
  static SLUICE_DEVICE int column_of(int row) {
    return kHalves == 1 ? row : row % kColumns;
  }
  static SLUICE_DEVICE int share_begin(int rank) {
    return rank * kQuads / kParts;
  }
  SLUICE_DEVICE u32 address(int k_group, int token, int row) const {
    return at_.smem + 4 * ((k_group * S::kTokens + token) * sums_stride(kConfig) + row);
  }
  SLUICE_DEVICE u32 incoming(int slot, int index, int half) const {
    return at_.smem + incoming_offset(kConfig) +
           16 * ((slot * ceil_div(kQuads, kParts) + index) * kHalves + half);
  }
  static SLUICE_DEVICE void add(ptx::Float4& sum, const ptx::Float4& other) {
    sum.x += other.x;
    sum.y += other.y;
    sum.z += other.z;
    sum.w += other.w;
  }
  /// `half`: 0 for the gate, 1 for "up".
  SLUICE_DEVICE ptx::Float4 own_sum(int quad, int half) const {
    const int token = quad / kRowQuads, row = quad % kRowQuads * 4 + half * kColumns;
    ptx::Float4 sum = ptx::load_shared_v4(address(0, token, row));
#pragma unroll
    for (int i = 1; i < S::kKGroups; ++i) add(sum, ptx::load_shared_v4(address(i, token, row)));
    return sum;
  }
  SLUICE_DEVICE ptx::Float4 whole_sum(int quad, int half) const {
    if constexpr (kParts == 1) return own_sum(quad, half);
    ptx::Float4 sum{};  // begins with zero, then adds slices in the order of k
    const ptx::Float4 own = own_sum(quad, half);
#pragma unroll
    for (int part = 0; part < kParts; ++part)
      add(sum, part == at_.rank ? own
                                : ptx::load_shared_v4(incoming(part - (part > at_.rank),
                                                               quad - share_begin(at_.rank), half)));
    return sum;
  }

  SLUICE_DEVICE u32 vector(int index) const {
    return at_.smem + vector_offset(kConfig) + 4 * index;
  }
  struct Four {
    float values[4];
  };
  /// Sums of four rows of the tile, scaled, with bias and activation.
  template <Activation kActivation>
  SLUICE_DEVICE Four finished(const ptx::Float4& sum, int token, int row) const {
    ptx::Float4 bias{}, scale{};
    if constexpr (kConfig.bias == Bias::column) bias = ptx::load_shared_v4(vector(row));
    if constexpr (S::kGroup == 0) scale = ptx::load_shared_v4(vector(kRows + row));
    const float token_scale = ptx::load_shared(vector(2 * kRows + token));
    const auto one = [&](float value, float row_scale, float row_bias) {
      if constexpr (S::kGroup == 0) value *= row_scale;
      value *= token_scale;
      if constexpr (kConfig.bias == Bias::column) value += row_bias;
      return activate<kActivation>(value);
    };
    return {{one(sum.x, scale.x, bias.x), one(sum.y, scale.y, bias.y), one(sum.z, scale.z, bias.z),
             one(sum.w, scale.w, bias.w)}};
  }
  /// `token`, `row`: relative to the tile. `quad`: their index. `sum`: the sums (of the gate, if gated).
  SLUICE_DEVICE void store(int token, int row, int quad, const ptx::Float4& sum) const {
    Four out = finished<kConfig.activation>(sum, token, row);
    if constexpr (kConfig.gated) {
      const Four up = finished<Activation::none>(whole_sum(quad, 1), token, kColumns + row);
#pragma unroll
      for (int i = 0; i < 4; ++i) out.values[i] *= up.values[i];
    }
    if constexpr (kConfig.scale_d != ScaleMode::none) {
      const float multiplier = 1.0f / scale_d_;
#pragma unroll
      for (float& value : out.values) value *= multiplier;
    }
    store_outputs<kConfig.d>(params_, at_.first_token + token, at_.first_strip * kStripRows + row,
                             out.values);
  }

  const StripParams& params_;
  const StripPlace<kConfig>& at_;
  float scale_d_ = 1.0f;
};

}  // namespace sluice::packed
