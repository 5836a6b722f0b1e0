// SPDX-License-Identifier: Apache-2.0
// From the sums of warps, and of a cluster's CTAs, to D: added up in fixed order in fp32, then the exponents
// that the codes had, scales of whole rows, bias, activation, and what is gated.
#pragma once

#include <sluice/device/element.cuh>
#include <sluice/device/epilogue/activation.cuh>
#include <sluice/device/epilogue/warp_sums.cuh>
#include <sluice/device/mixed/outputs.cuh>
#include <sluice/device/mixed/tile_sums.cuh>

namespace sluice::mixed {

template <NarrowConfig kConfig>
class Finish {
  using S = Shape<kConfig>;
  using Codes = typename S::Codes;

 public:
  SLUICE_DEVICE Finish(const NarrowParams& params, const Place& at) : params_(params), at_(at) {}

  /// All threads of the CTA.
  template <class Sums>
  SLUICE_DEVICE void run(const Sums& warp, u32 smem) const {
    const WarpSums<warp_tile(kConfig)> sums(smem, smem + incoming_offset(kConfig), at_.rank);
    const RowPair factors{exact_power(Codes::kUpperExponent), exact_power(Codes::kLowerExponent)};
    if constexpr (kConfig.gated)
      sums.add_up_halves(warp.sums, factors,
                         [this](int token, int column, const ptx::Float4& gate, const ptx::Float4& up) {
                           store_gated(token, column, gate, up);
                         });
    else
      sums.add_up(warp.sums, factors,
                  [this](int token, int row, const ptx::Float4& sum) { store(token, row, sum); });
  }

 private:
  /// What the activation is given; `row`: of W.
  SLUICE_DEVICE float scaled(float sum, int row) const {
    if constexpr (S::kGroup == 0) sum *= row_scale<kConfig.weights>(params_, row);
    if constexpr (kConfig.bias == Bias::column) sum += load_element<kConfig.bias_type>(params_.bias, row);
    return sum;
  }
  SLUICE_DEVICE float finished(float sum, int row) const {
    if (row >= params_.n) return 0.0f;
    return activate<kConfig.activation>(scaled(sum, row));
  }
  SLUICE_DEVICE float gated(float gate, float up, int column) const {
    return activate<kConfig.activation>(scaled(gate, column)) * scaled(up, params_.n + column);
  }
  /// Whole strips, so that all four are columns of D.
  SLUICE_DEVICE void store_gated(int token_in_tile, int column_in_tile, const ptx::Float4& gate,
                                 const ptx::Float4& up) const {
    const int token = at_.first_token + token_in_tile, column = at_.first_row + column_in_tile;
    if (token >= params_.m) return;
    const float values[4] = {gated(gate.x, up.x, column), gated(gate.y, up.y, column + 1),
                             gated(gate.z, up.z, column + 2), gated(gate.w, up.w, column + 3)};
    store_outputs<kConfig.d>(params_, token, column, values);
  }
  SLUICE_DEVICE void store(int token_in_tile, int row_in_tile, const ptx::Float4& sum) const {
    const int token = at_.first_token + token_in_tile, row = at_.first_row + row_in_tile;
    if (token >= params_.m || row >= params_.n) return;
    const float values[4] = {finished(sum.x, row), finished(sum.y, row + 1), finished(sum.z, row + 2),
                             finished(sum.w, row + 3)};
    store_outputs<kConfig.d>(params_, token, row, values);
  }

  const NarrowParams& params_;
  const Place& at_;
};

}  // namespace sluice::mixed
