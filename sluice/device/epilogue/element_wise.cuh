// SPDX-License-Identifier: Apache-2.0
// Turns an accumulator into a value of D: act(scale * acc + beta * C + bias), two neighbouring columns at a
// time. A gated epilogue (Epilogue::gated) multiplies the values of two accumulators. Columns are then those
// of the product: column j of D has "up" in column n / 2 + j. Operands are read only inside D; values outside
// D are never stored. Block scales of D are not applied here: they follow from the values (tile_store.cuh).
#pragma once

#include <sluice/spec/params.h>
#include <sluice/device/element.cuh>
#include <sluice/device/epilogue/activation.cuh>

namespace sluice {

/// A thread's values for 8 columns, as elements of D: a pair in one row and a pair 8 rows below.
struct FragmentPairs {
  Pair upper, lower;
};
/// The position of a pair of elements in D, or of the first of several pairs.
struct Position {
  int row, column, batch;
};
struct TensorScales {
  float a = 1.0f, b = 1.0f, d = 1.0f;
};
struct RowScales {
  float upper, lower;
  float upper_bias = 0, lower_bias = 0;      // with Bias::row
  float upper_factor = 1, lower_factor = 1;  // with Epilogue::row_factors
};
/// Operands of two neighbouring columns, loaded once for all rows of a fragment.
struct ColumnPair {
  Pair scale{1.0f, 1.0f};
  Pair bias{0.0f, 0.0f};
};

template <Epilogue kEpilogue>
struct ElementWise {
  const GemmParams& params;
  float tensor_scale;  // alpha and the per-tensor scales
  float multiplier;    // factor by which D is multiplied, to divide it by scale_d

  SLUICE_DEVICE explicit ElementWise(const GemmParams& p) : params(p) {}

  /// Call from math threads before their first tile. If the load thread waited for these scales, its first
  /// load would be 0.7 us late (docs/findings/decode.md). With alpha = 0 no scale is read, so that any value,
  /// infinity included, has no effect.
  SLUICE_DEVICE void read_tensor_scales() { set_tensor_scales(load_tensor_scales()); }
  /// read_tensor_scales() in two steps, so that only the second waits for memory.
  SLUICE_DEVICE TensorScales load_tensor_scales() const {
    TensorScales scales;
    if constexpr (kEpilogue.scale_d == ScaleMode::tensor)
      scales.d = load_element<DType::fp32>(params.scale_d, 0);
    if (params.alpha == 0.0f) return scales;
    if constexpr (kEpilogue.scale_a == ScaleMode::tensor)
      scales.a = load_element<DType::fp32>(params.scale_a, 0);
    if constexpr (kEpilogue.scale_b == ScaleMode::tensor)
      scales.b = load_element<DType::fp32>(params.scale_b, 0);
    return scales;
  }
  SLUICE_DEVICE void set_tensor_scales(const TensorScales& scales) {
    tensor_scale = params.alpha;
    if constexpr (kEpilogue.scale_a == ScaleMode::tensor) tensor_scale *= scales.a;
    if constexpr (kEpilogue.scale_b == ScaleMode::tensor) tensor_scale *= scales.b;
    if constexpr (kEpilogue.scale_d == ScaleMode::tensor) multiplier = 1.0f / scales.d;
  }

  // gemm.cuh reads scale vectors from shared memory (epilogue_vectors.cuh). sum_parts.cuh has few sums per
  // thread, and no products behind which to hide copies, so it reads them directly.

  /// The factor of one row of A, loaded once for all columns of a fragment.
  SLUICE_DEVICE float row_scale(int row) const {
    if constexpr (kEpilogue.scale_a == ScaleMode::vector)
      return row < params.m && params.alpha != 0.0f ? tensor_scale * params.scale_a[row] : 0;
    return tensor_scale;
  }

  SLUICE_DEVICE RowScales row_scales(int upper_row) const {
    return {row_scale(upper_row), row_scale(upper_row + 8)};
  }

  /// The scales of columns `column` and `column` + 1, from global memory. `first`: where the group's vector
  /// begins, for kernels with groups.
  SLUICE_DEVICE Pair column_scales(int column, i64 first = 0) const {
    Pair scale{1.0f, 1.0f};
    if (kEpilogue.scale_b == ScaleMode::vector && params.alpha != 0.0f) {
      if (column < params.n) scale.x = load_element<DType::fp32>(params.scale_b, first + column);
      if (column + 1 < params.n) scale.y = load_element<DType::fp32>(params.scale_b, first + column + 1);
    }
    return scale;
  }
  SLUICE_DEVICE Pair column_bias(int column, i64 first = 0) const {
    Pair bias{0.0f, 0.0f};
    if constexpr (kEpilogue.bias == Bias::column) {
      if (column < params.n) bias.x = load_element<kEpilogue.bias_type>(params.bias, first + column);
      if (column + 1 < params.n) bias.y = load_element<kEpilogue.bias_type>(params.bias, first + column + 1);
    }
    return bias;
  }
  /// The bias of one row, with Bias::row.
  SLUICE_DEVICE float row_bias(int row) const {
    return row < params.m ? load_element<kEpilogue.bias_type>(params.bias, row) : 0;
  }
  /// The factor of one row, with Epilogue::row_factors.
  SLUICE_DEVICE float row_factor(const float* factors, int row) const {
    return row < params.m ? load_element<DType::fp32>(factors, row) : 0;
  }
  SLUICE_DEVICE ColumnPair columns(int column, i64 first = 0) const {
    return {column_scales(column, first), column_bias(column, first)};
  }

  /// Two elements of C, for kernels with few sums per thread; zeros outside C. gemm.cuh loads C ahead instead
  /// (residual.cuh).
  SLUICE_DEVICE Pair residual(const Position& at) const {
    Pair c{0.0f, 0.0f};
    if constexpr (kEpilogue.residual) {
      if (params.c != nullptr && at.row < params.m) {
        const i64 index = at.batch * params.c_batch_stride + at.row * params.c_ld + at.column;
        if (at.column < params.n) c.x = load_element<kEpilogue.c_type>(params.c, index);
        if (at.column + 1 < params.n) c.y = load_element<kEpilogue.c_type>(params.c, index + 1);
      }
    }
    return c;
  }

  /// The value before the activation. `c`: elements of C, ignored without a residual.
  SLUICE_DEVICE Pair scaled(Pair acc, float row_scale, const ColumnPair& operands, const Pair& c) const {
    Pair value{acc.x * (row_scale * operands.scale.x), acc.y * (row_scale * operands.scale.y)};
    if constexpr (kEpilogue.residual) {
      value.x += params.beta * c.x;
      value.y += params.beta * c.y;
    }
    if constexpr (kEpilogue.bias != Bias::none) {
      value.x += operands.bias.x;
      value.y += operands.bias.y;
    }
    return value;
  }
  SLUICE_DEVICE static Pair activated(const Pair& value) {
    return {activate<kEpilogue.activation>(value.x), activate<kEpilogue.activation>(value.y)};
  }
  SLUICE_DEVICE static Pair gate_factors(const Pair& value) {
    return {gate_factor<kEpilogue.activation>(value.x), gate_factor<kEpilogue.activation>(value.y)};
  }
  /// Divides by scale_d in the same way as the quantiser (kernels/quantize.cuh).
  SLUICE_DEVICE Pair divided(const Pair& value) const {
    if constexpr (kEpilogue.scale_d != ScaleMode::tensor) return value;
    return {value.x * multiplier, value.y * multiplier};
  }
  SLUICE_DEVICE static Pair weighted(const Pair& value, float factor) {
    if constexpr (!kEpilogue.row_factors) return value;
    return {value.x * factor, value.y * factor};
  }
  SLUICE_DEVICE Pair apply(Pair acc, float row_scale, const ColumnPair& operands, const Pair& c,
                           float factor) const {
    return divided(weighted(activated(scaled(acc, row_scale, operands, c)), factor));
  }
  SLUICE_DEVICE Pair apply(Pair acc, float row_scale, const ColumnPair& operands, const Pair& c) const {
    static_assert(!kEpilogue.row_factors);
    return apply(acc, row_scale, operands, c, 1.0f);
  }
  /// One pair of D from the sums of gate and up; operands[0] is the gate's.
  SLUICE_DEVICE Pair apply_gated(const Pair& gate, const Pair& up, float row_scale,
                                 const ColumnPair* operands, float factor) const {
    const Pair left = activated(scaled(gate, row_scale, operands[0], {}));
    const Pair right = gate_factors(scaled(up, row_scale, operands[1], {}));
    return divided(weighted({left.x * right.x, left.y * right.y}, factor));
  }
  SLUICE_DEVICE Pair apply_gated(const Pair& gate, const Pair& up, float row_scale,
                                 const ColumnPair* operands) const {
    static_assert(!kEpilogue.row_factors);
    return apply_gated(gate, up, row_scale, operands, 1.0f);
  }
  /// `sums`: four of one thread, the upper pair first.
  SLUICE_DEVICE FragmentPairs apply_to_fragment(const float* sums, const RowScales& scales,
                                                const ColumnPair& operands, const FragmentPairs& c) const {
    return {apply({sums[0], sums[1]}, scales.upper, of_row(operands, scales.upper_bias), c.upper,
                  scales.upper_factor),
            apply({sums[2], sums[3]}, scales.lower, of_row(operands, scales.lower_bias), c.lower,
                  scales.lower_factor)};
  }
  SLUICE_DEVICE static ColumnPair of_row(ColumnPair operands, float bias) {
    if constexpr (kEpilogue.bias == Bias::row) operands.bias = {bias, bias};
    return operands;
  }
  /// `sums`: eight of one thread, the gate's four first.
  SLUICE_DEVICE FragmentPairs apply_gated_to_fragment(const float* sums, const RowScales& scales,
                                                      const ColumnPair* operands) const {
    return {apply_gated({sums[0], sums[1]}, {sums[4], sums[5]}, scales.upper, operands, scales.upper_factor),
            apply_gated({sums[2], sums[3]}, {sums[6], sums[7]}, scales.lower, operands, scales.lower_factor)};
  }
};

}  // namespace sluice
