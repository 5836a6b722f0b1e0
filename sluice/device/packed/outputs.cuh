// SPDX-License-Identifier: Apache-2.0
// Outputs (rows of W) in all packed kernels: the scale and zero of a whole row, and the store of four
// neighbouring outputs of a token. With group = 0 these scales and zeros follow a strip's tiles
// (docs/packing.md).
#pragma once

#include <sluice/spec/packed_codes.h>
#include <sluice/device/element.cuh>

namespace sluice::packed {

/// Zero points of the strip's 64 rows, which are the last bytes of the strip.
template <WeightFormat kFormat, class Params>
SLUICE_DEVICE const u8* strip_zeros(const Params& params, int strip) {
  return static_cast<const u8*>(params.weights) - row_zero_bytes(kFormat) + (strip + 1) * params.strip_bytes;
}

/// Scale of a whole row. `row`: counted through the whole blob, not within a strip.
template <WeightFormat kFormat, class Params>
SLUICE_DEVICE float row_scale(const Params& params, int row) {
  return load_element<kFormat.scale>(
      strip_zeros<kFormat>(params, row / kStripRows) - row_scale_bytes(kFormat),
      scale_slot(row % kStripRows, 0));
}

/// Stores rows `row` to `row` + 3 of a token, except those outside D.
template <DType kD, class Params>
SLUICE_DEVICE void store_outputs(const Params& params, int token, int row, const float (&values)[4]) {
  const i64 index = token * params.ld_d + row;
  if (params.vectors) {
    store_element_quad<kD>(params.d, index, values);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (row + i < params.n) store_element<kD>(params.d, index + i, values[i]);
  }
}

}  // namespace sluice::packed
