// SPDX-License-Identifier: Apache-2.0
// Checks the arrays of c_training.h's calls, and makes the library's calls from them.
#pragma once

#include <sluice/c_api/array_shape.h>
#include <sluice/c_training.h>
#include <sluice/quantize_both.h>

namespace sluice::c_api {

struct QuantizeBothCall {
  QuantizeBothOptions options{};
  QuantizeBothShape shape{};
  QuantizeBothArgs args{};
  int memory = kOnHost;
};

/// Errors: invalid_argument (a missing array or an unknown enumerator), invalid_type, invalid_size,
/// invalid_stride, wrong_device (arrays in different memories).
Result<QuantizeBothCall> quantization_both_of(const sluice_quantization_both& what);

}  // namespace sluice::c_api
