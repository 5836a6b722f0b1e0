// SPDX-License-Identifier: Apache-2.0
// Makes a quantiser's or a norm's call from C's arrays. Success allocates nothing.
#pragma once

#include <optional>

#include <sluice/c_api/array_shape.h>
#include <sluice/norm.h>
#include <sluice/quantize.h>

namespace sluice::c_api {

struct QuantizeCall {
  DType input = DType::bf16;
  std::optional<Granularity> granularity{};  // nothing: silu(gate) * up without quantisation
  Gate gate = Gate::none;
  QuantizeShape shape{};
  QuantizeArgs args{};
  int memory = kOnHost;
};

struct NormCall {
  NormOptions options{};
  NormShape shape{};
  NormArgs args{};
  int memory = kOnHost;
};

/// Errors: invalid_argument (missing, no enumerator), invalid_type, invalid_size, invalid_stride,
/// wrong_device (arrays in several memories).
Result<QuantizeCall> quantization_of(const sluice_quantization& what);
Result<NormCall> normalization_of(const sluice_normalization& what);

}  // namespace sluice::c_api
