// SPDX-License-Identifier: Apache-2.0
// Checks the arrays of a quantiser or a norm that C callers pass, and makes the library's call from them. It
// allocates memory only for error messages.
#pragma once

#include <optional>

#include <sluice/c_api/array_shape.h>
#include <sluice/c_experts.h>
#include <sluice/c_training.h>
#include <sluice/norm.h>
#include <sluice/quantize.h>
#include <sluice/quantize_both.h>

namespace sluice::c_api {

struct QuantizeCall {
  DType input = DType::bf16;
  std::optional<Granularity> granularity{};  // empty: silu(gate) * up without quantisation
  Gate gate = Gate::none;
  QuantizeShape shape{};
  QuantizeArgs args{};
  int memory = kOnHost;
  bool gathered = false;

  QuantizerOptions options() const {
    return {.input = input, .granularity = granularity, .gate = gate, .gathered = gathered};
  }
};

struct QuantizeBothCall {
  QuantizeBothOptions options{};
  QuantizeBothShape shape{};
  QuantizeBothArgs args{};
  int memory = kOnHost;
};

struct NormCall {
  NormOptions options{};
  NormShape shape{};
  NormArgs args{};
  int memory = kOnHost;
};

/// Errors: invalid_argument (a missing array or an unknown enumerator), invalid_type, invalid_size,
/// invalid_stride, wrong_device (arrays in different memories).
Result<QuantizeCall> quantization_of(const sluice_quantization& what);
Result<QuantizeBothCall> quantization_both_of(const sluice_quantization_both& what);
Result<NormCall> normalization_of(const sluice_normalization& what);
/// A quantiser of the rows that a table names, or a copy of them.
Result<QuantizeCall> gathering_of(const sluice_gathering& what);

}  // namespace sluice::c_api
