// SPDX-License-Identifier: Apache-2.0
// See quantize.h.
#include <sluice/reference/quantize.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <sluice/reference/element.h>

namespace sluice {
namespace {

/// Returns the value to quantise: the element, or silu(gate) * up.
float value_at(const QuantizeInput& input, i64 row, i64 column) {
  const i64 up = input.transposed ? input.rows : input.columns;
  if (input.transposed) std::swap(row, column);
  const i64 index = row * input.ld + column;
  const float value = static_cast<float>(load_element(input.type, input.data, index));
  if (input.gate == Gate::none) return value;
  return reference_silu(value) * static_cast<float>(load_element(input.type, input.data, index + up));
}

struct Group {
  i64 row_begin, row_end, column_begin, column_end;
};

void quantize_group(const QuantizeInput& input, const Group& group, u8* output, i64 output_ld, float* scale,
                    const ScaleRule& rule) {
  float amax = 0.0f;
  for (i64 row = group.row_begin; row < group.row_end; ++row)
    for (i64 column = group.column_begin; column < group.column_end; ++column) {
      amax = larger_magnitude(amax, value_at(input, row, column));
    }
  const ReferenceScale found = reference_scale(amax, rule);
  *scale = found.scale;
  for (i64 row = group.row_begin; row < group.row_end; ++row)
    for (i64 column = group.column_begin; column < group.column_end; ++column)
      output[row * output_ld + column] = quantised(value_at(input, row, column), found, rule.output);
}

}  // namespace

float larger_magnitude(float amax, float value) {
  return std::isnan(value) || std::isnan(amax) ? std::numeric_limits<float>::quiet_NaN()
                                               : std::max(amax, std::fabs(value));
}

ReferenceScale reference_scale(float amax, const ScaleRule& rule) {
  const float largest = rule.output == DType::e5m2 ? 57344.0f : 448.0f;
  if (amax < rule.smallest) amax = rule.smallest;
  const float reciprocal = 1.0f / amax;
  const float multiplier = reciprocal * largest;
  if (!rule.powers_of_two || std::isnan(multiplier)) return {amax * (1.0f / largest), multiplier};
  const float power = multiplier == 0 ? 0 : std::exp2(static_cast<float>(std::ilogb(multiplier)));
  return {1.0f / power, power};
}

u8 quantised(float value, const ReferenceScale& scale, DType output) {
  const float scaled = value * scale.multiplier;
  return static_cast<u8>(encode_code(output, scaled));
}

float reference_silu(float x) {
  return x / (1.0f + std::exp(-x));
}

void reference_quantize(const QuantizeInput& input, Granularity granularity, u8* output, i64 output_ld,
                        float* scales, const ScaleRule& rule) {
  const bool by_row = granularity == Granularity::row || granularity == Granularity::row_block;
  const bool in_blocks = granularity == Granularity::row_block || granularity == Granularity::square_block;
  const i64 height = by_row ? 1 : granularity == Granularity::tensor ? input.rows : 128;
  const i64 width = in_blocks ? 128 : input.columns;
  for (i64 row = 0; row < input.rows; row += height)
    for (i64 column = 0; column < input.columns; column += width)
      quantize_group(
          input, {row, std::min(row + height, input.rows), column, std::min(column + width, input.columns)},
          output, output_ld, scales++, rule);
}

void reference_gated(const QuantizeInput& input, void* output, i64 output_ld) {
  for (i64 row = 0; row < input.rows; ++row)
    for (i64 column = 0; column < input.columns; ++column)
      store_element(input.type, output, row * output_ld + column, value_at(input, row, column));
}

}  // namespace sluice
