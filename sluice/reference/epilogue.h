// SPDX-License-Identifier: Apache-2.0
// The way of a sum to D, in double: scales, C, D's old value, bias, activation. The plain references of
// products (gemm.h) and of convolutions (conv.h) end with it.
#pragma once

#include <sluice/spec/problem.h>

namespace sluice {

/// Operands in host memory, laid out as the problem says. Unused ones may be null.
struct HostBuffers {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
  const float* scale_a = nullptr;
  const float* scale_b = nullptr;
  const void* bias = nullptr;
  const float* scale_d = nullptr;
};

struct Scalars {
  float alpha = 1.0f;
  float beta = 0.0f;
};

/// ReLU, exact GELU or SiLU; NaN stays NaN.
double activate(Activation activation, double x);

/// Where one output finds its scales and bias, C and D.
struct OutputPlace {
  i64 row = 0, column = 0;  // a position in the product
  i64 c = 0, d = 0;         // indices into the arrays
};
/// The value before the activation. `sum` holds block scales already. Reads only what the contract says: C if
/// beta != 0, scales if alpha != 0, D if it is added to.
double before_activation(const Problem& p, const HostBuffers& buffers, Scalars scalars,
                         const OutputPlace& place, double sum);
/// The activated value (or gated product) as D holds it: divided by scale_d.
double over_scale_d(const Problem& p, const HostBuffers& buffers, double value);

}  // namespace sluice
