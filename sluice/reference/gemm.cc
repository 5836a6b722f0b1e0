// SPDX-License-Identifier: Apache-2.0
// See gemm.h. Written to be read beside the formula, not to be fast: about 10^8 products a second.
#include <sluice/reference/gemm.h>

#include <cmath>

#include <sluice/reference/element.h>

namespace sluice {
namespace {

double scale_of(ScaleMode mode, const float* values, i64 index) {
  switch (mode) {
    case ScaleMode::none:
    case ScaleMode::block: return 1.0;  // block: block_scale()
    case ScaleMode::tensor: return values[0];
    case ScaleMode::vector: return values[index];
  }
  return 1.0;
}

/// The block scale of the products of A[row][k] and B[column][k].
double block_scale(const Problem& p, const HostBuffers& buffers, const ElementIndex& at, i64 k) {
  if (!is_block_scaled(p.epilogue)) return 1.0;
  return static_cast<double>(buffers.scale_a[block_scale_a_index(p, at.batch, at.row, k)]) *
         static_cast<double>(buffers.scale_b[block_scale_b_index(p, at.batch, at.column, k)]);
}

}  // namespace

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::none: return x;
    case Activation::relu: return x < 0.0 ? 0.0 : x;  // not x > 0 ? x : 0, which would turn NaN into 0
    case Activation::gelu: return 0.5 * x * std::erfc(-x * 0.70710678118654752440);
    case Activation::silu: return x / (1.0 + std::exp(-x));
  }
  return x;
}

namespace {

/// The value before the activation. `at` is a position in the product.
double before_activation(const Problem& p, const HostBuffers& buffers, Scalars scalars,
                         const ElementIndex& at) {
  double value = 0.0;
  if (scalars.alpha != 0.0f) {
    double sum = 0.0;
    for (i64 k = 0; k < p.k; ++k)
      sum += load_element(p.a.type, buffers.a, a_index(p, at.batch, at.row, k)) *
             load_element(p.b.type, buffers.b, b_index(p, at.batch, at.column, k)) *
             block_scale(p, buffers, at, k);
    value = static_cast<double>(scalars.alpha) * scale_of(p.epilogue.scale_a, buffers.scale_a, at.row) *
            scale_of(p.epilogue.scale_b, buffers.scale_b, at.column) * sum;
  }
  if (p.epilogue.residual && scalars.beta != 0.0f)
    value += scalars.beta * load_element(p.epilogue.c_type, buffers.c, c_index(p, at));
  if (adds(p.epilogue)) value += load_element(p.d.type, buffers.d, d_index(p, at));
  if (p.epilogue.bias != Bias::none)
    value += load_element(p.epilogue.bias_type, buffers.bias,
                          p.epilogue.bias == Bias::column ? at.column : at.row);
  return value;
}

}  // namespace

double reference_element(const Problem& p, const HostBuffers& buffers, Scalars scalars,
                         const ElementIndex& at) {
  double value = activate(p.epilogue.activation, before_activation(p, buffers, scalars, at));
  if (p.epilogue.gated)
    value *= before_activation(p, buffers, scalars, {at.batch, at.row, at.column + p.n / 2});
  return p.epilogue.scale_d == ScaleMode::none ? value : value * static_cast<double>(1.0f / *buffers.scale_d);
}

void reference_gemm(const Problem& problem, const HostBuffers& buffers, float alpha, float beta) {
  const Problem p = with_strides(problem);
  if (leaves_d(p, alpha)) return;
  for (i64 batch = 0; batch < p.batch; ++batch)
    for (i64 row = 0; row < p.m; ++row)
      for (i64 column = 0; column < d_columns(p); ++column) {
        const ElementIndex at{.batch = batch, .row = row, .column = column};
        store_element(p.d.type, buffers.d, d_index(p, at),
                      reference_element(p, buffers, {.alpha = alpha, .beta = beta}, at));
      }
}

}  // namespace sluice
