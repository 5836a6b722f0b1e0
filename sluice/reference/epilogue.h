// SPDX-License-Identifier: Apache-2.0
// The epilogue in double: scales, C, D's old value, bias, activation. The references of products (gemm.h) and
// of convolutions (conv.h) use it.
#pragma once

#include <sluice/spec/problem.h>

namespace sluice {

/// Operands in host memory, with the layouts of the problem. Unused ones may be null.
struct HostBuffers {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
  const float* scale_a = nullptr;
  const float* scale_b = nullptr;
  const void* bias = nullptr;
  const float* scale_d = nullptr;
  const int* groups = nullptr;  // the table, one number per group
  float* scale_out = nullptr;   // with block scales of D: written
  const float* row_factors = nullptr;
};

struct Scalars {
  float alpha = 1.0f;
  float beta = 0.0f;
};

/// Applies ReLU, exact GELU or SiLU; NaN stays NaN.
double activate(Activation activation, double x);
/// Returns the factor of an activated gate. `x`: "up".
double gate_factor(Activation activation, double x);

/// The indices with which one output reads its scales, bias, C and D.
struct OutputPlace {
  i64 row = 0, column = 0;  // a position in the product; with slots the row of A
  i64 vector = 0;           // the index of the column's scale and bias
  i64 c = 0, d = 0;         // indices into the arrays
};
/// Returns the value before the activation. `sum` includes block scales. Reads C only if beta != 0, scales
/// only if alpha != 0, and D only with Update::add.
double before_activation(const Problem& p, const HostBuffers& buffers, Scalars scalars,
                         const OutputPlace& place, double sum);
/// Returns the activated value (or gated product) divided by scale_d, if that is one value.
double over_scale_d(const Problem& p, const HostBuffers& buffers, double value);

}  // namespace sluice
