// SPDX-License-Identifier: Apache-2.0
// Quantisers by their definition, in fp32: they process one group of elements with a common scale at a time.
// Kernels must match them bit for bit. Called by tests, and where a product quantises its result.
#pragma once

#include <sluice/spec/quantize.h>

namespace sluice {

/// A row-major matrix in host memory. `ld` is in elements; `columns` are those of the output.
struct QuantizeInput {
  DType type = DType::bf16;
  const void* data = nullptr;
  i64 rows = 0, columns = 0, ld = 0;
  Gate gate = Gate::none;
  bool transposed = false;  // rows and columns are those of the transpose; `data` and `ld` are not
};

/// How scales follow from the largest magnitude, and what codes are.
struct ScaleRule {
  float smallest = kSmallestAmax;
  DType output = DType::e4m3;
  bool powers_of_two = false;
};

/// Returns the larger of a largest magnitude so far and |value|; NaN stays.
float larger_magnitude(float amax, float value);
/// The scale of values of this largest magnitude, and what they are multiplied by before the rounding.
struct ReferenceScale {
  float scale, multiplier;
};
ReferenceScale reference_scale(float amax, const ScaleRule& rule = {});
/// Returns the code of a value.
u8 quantised(float value, const ReferenceScale& scale, DType output = DType::e4m3);

/// Returns x / (1 + exp(-x)) in fp32.
float reference_silu(float x);

/// Writes rows x columns of codes to `output` (row pitch output_ld bytes), and the scales, row-major and
/// packed.
void reference_quantize(const QuantizeInput& input, Granularity granularity, u8* output, i64 output_ld,
                        float* scales, const ScaleRule& rule = {});

/// Writes silu(gate) * up, rounded to the input's type. The output's row pitch is output_ld elements.
void reference_gated(const QuantizeInput& input, void* output, i64 output_ld);

}  // namespace sluice
