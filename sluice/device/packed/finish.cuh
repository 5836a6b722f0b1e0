// SPDX-License-Identifier: Apache-2.0
// Turns the partial sums of warps, and of a cluster's CTAs, into D. It adds them up in fixed order in fp32.
// Then it applies, in this order: the codes' exponents, the tokens' norm, scales of whole rows, bias,
// activation and gate, residual.
#pragma once

#include <sluice/device/element.cuh>
#include <sluice/device/epilogue/activation.cuh>
#include <sluice/device/epilogue/warp_sums.cuh>
#include <sluice/device/packed/outputs.cuh>
#include <sluice/device/packed/tile_sums.cuh>
#include <sluice/device/packed/token_squares.cuh>
#include <sluice/device/ptx/global.cuh>

namespace sluice::packed {

template <NarrowConfig kConfig>
class Finish {
  using S = Shape<kConfig>;
  using Codes = typename S::Codes;

 public:
  /// `smem`: the CTA's shared memory.
  SLUICE_DEVICE Finish(const NarrowParams& params, const Place& at, u32 smem)
      : params_(params), at_(at), smem_(smem) {}

  /// Call from all threads of the CTA.
  template <class Sums>
  SLUICE_DEVICE void run(const Sums& warp) const {
    const WarpSums<warp_tile(kConfig)> sums(smem_, smem_ + incoming_offset(kConfig), at_.rank);
    const RowPair factors{exact_power(Codes::kUpperExponent), exact_power(Codes::kLowerExponent)};
    const auto send = [this] {
      if constexpr (kConfig.norm_a) send_squares<kConfig>(smem_, at_);
    };
    if constexpr (kConfig.gated)
      sums.add_up_halves(
          warp.sums, factors,
          [this](int token, int column, const ptx::Float4& gate, const ptx::Float4& up) {
            store_gated(token, column, gate, up);
          },
          send);
    else if constexpr (kConfig.residual)
      sums.add_up_with(
          warp.sums, factors, [this](int token, int row) { return residual(token, row); },
          [this](int token, int row, const ptx::Float4& sum, const Residual& residual) {
            store(token, row, sum, residual);
          },
          send);
    else
      sums.add_up(
          warp.sums, factors,
          [this](int token, int row, const ptx::Float4& sum) { store(token, row, sum, {}); }, send);
  }

 private:
  /// Four neighbouring elements of C, in C's type.
  struct Residual {
    u32 words[bytes_of(kConfig.d)] = {};

    SLUICE_DEVICE float operator[](int i) const {
      if constexpr (kConfig.d == DType::fp32) {
        return __uint_as_float(words[i]);
      } else {
        const Pair pair = unpack_16bit<kConfig.d>(words[i / 2]);
        return i % 2 == 0 ? pair.x : pair.y;
      }
    }
  };
  SLUICE_DEVICE Residual residual(int token_in_tile, int row_in_tile) const {
    Residual found;
    const int token = at_.first_token + token_in_tile, row = at_.first_row + row_in_tile;
    if (token >= params_.m || row >= params_.n) return found;
    const i64 index = token * params_.ld_c + row;
    if (params_.vectors) {
      ptx::load_global_words(static_cast<const u8*>(params_.c) + index * bytes_of(kConfig.d), found.words);
      return found;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (row + i >= params_.n) continue;
      const float value = load_element<kConfig.d>(params_.c, index + i);
      if constexpr (kConfig.d == DType::fp32)
        found.words[i] = __float_as_uint(value);
      else
        found.words[i / 2] |= pack_16bit<kConfig.d>(i % 2 == 0 ? value : 0.0f, i % 2 == 0 ? 0.0f : value);
    }
    return found;
  }

  /// The factor for a token's sums.
  SLUICE_DEVICE float factor_of(int token_in_tile) const {
    if constexpr (kConfig.norm_a) return inverse_root<kConfig>(params_, smem_, token_in_tile);
    return 1.0f;
  }
  /// The value before the activation. `row`: row of W; `blob_row`: its row in the blob.
  SLUICE_DEVICE float scaled(float sum, int row, int blob_row, float factor) const {
    if constexpr (kConfig.norm_a) sum *= factor;
    if constexpr (S::kGroup == 0) sum *= row_scale<kConfig.weights>(params_, blob_row);
    if constexpr (kConfig.bias == Bias::column) sum += load_element<kConfig.bias_type>(params_.bias, row);
    return sum;
  }
  SLUICE_DEVICE float finished(float sum, int row, float factor) const {
    if (row >= params_.n) return 0.0f;
    return activate<kConfig.activation>(scaled(sum, row, row, factor));
  }
  SLUICE_DEVICE float gated(float gate, float up, int column, float factor) const {
    return activate<kConfig.activation>(scaled(gate, column, column, factor)) *
           scaled(up, params_.n + column, strip_step(kConfig, params_.n) * kStripRows + column, factor);
  }
  /// Stores four columns of D. D's width is a multiple of 8, so either all four exist or none.
  SLUICE_DEVICE void store_gated(int token_in_tile, int column_in_tile, const ptx::Float4& gate,
                                 const ptx::Float4& up) const {
    const int token = at_.first_token + token_in_tile, column = at_.first_row + column_in_tile;
    if (token >= params_.m || column >= params_.n) return;
    const float factor = factor_of(token_in_tile);
    const float values[4] = {gated(gate.x, up.x, column, factor), gated(gate.y, up.y, column + 1, factor),
                             gated(gate.z, up.z, column + 2, factor),
                             gated(gate.w, up.w, column + 3, factor)};
    store_outputs<kConfig.d>(params_, token, column, values);
  }
  SLUICE_DEVICE void store(int token_in_tile, int row_in_tile, const ptx::Float4& sum,
                           const Residual& residual) const {
    const int token = at_.first_token + token_in_tile, row = at_.first_row + row_in_tile;
    if (token >= params_.m || row >= params_.n) return;
    const float factor = factor_of(token_in_tile);
    float values[4] = {finished(sum.x, row, factor), finished(sum.y, row + 1, factor),
                       finished(sum.z, row + 2, factor), finished(sum.w, row + 3, factor)};
    if constexpr (kConfig.residual) {
#pragma unroll
      for (int i = 0; i < 4; ++i) values[i] += residual[i];
    }
    store_outputs<kConfig.d>(params_, token, row, values);
  }

  const NarrowParams& params_;
  const Place& at_;
  u32 smem_;
};

}  // namespace sluice::packed
