// SPDX-License-Identifier: Apache-2.0
#include <sluice/reference/epilogue.h>

#include <cmath>

#include <sluice/reference/element.h>

namespace sluice {
namespace {

double scale_of(ScaleMode mode, const float* values, i64 index) {
  switch (mode) {
    case ScaleMode::none:
    case ScaleMode::block:
    case ScaleMode::vector128: return 1.0;  // block scales are already applied within the sum
    case ScaleMode::tensor: return values[0];
    case ScaleMode::vector: return values[index];
  }
  return 1.0;
}

}  // namespace

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::none: return x;
    case Activation::relu: return x < 0.0 ? 0.0 : x;  // `x > 0 ? x : 0` would turn NaN into 0
    case Activation::gelu: return 0.5 * x * std::erfc(-x * 0.70710678118654752440);
    case Activation::silu: return x / (1.0 + std::exp(-x));
    case Activation::clamped_swiglu: {
      const double gate = x > double{kClampLimit} ? double{kClampLimit} : x;  // NaN stays
      return gate / (1.0 + std::exp(-double{kClampedSlope} * gate));
    }
  }
  return x;
}

double gate_factor(Activation activation, double x) {
  constexpr double kLimit = kClampLimit;
  if (!clamps(activation)) return x;
  return (x > kLimit ? kLimit : x < -kLimit ? -kLimit : x) + 1.0;
}

double before_activation(const Problem& p, const HostBuffers& buffers, Scalars scalars,
                         const OutputPlace& place, double sum) {
  double value = 0.0;
  if (scalars.alpha != 0.0f)
    value = static_cast<double>(scalars.alpha) * scale_of(p.epilogue.scale_a, buffers.scale_a, place.row) *
            scale_of(p.epilogue.scale_b, buffers.scale_b, place.vector) * sum;
  if (p.epilogue.residual && scalars.beta != 0.0f)
    value += scalars.beta * load_element(p.epilogue.c_type, buffers.c, place.c);
  if (adds(p.epilogue)) value += load_element(p.d.type, buffers.d, place.d);
  if (p.epilogue.bias != Bias::none)
    value += load_element(p.epilogue.bias_type, buffers.bias,
                          p.epilogue.bias == Bias::column ? place.vector : place.row);
  return value;
}

double over_scale_d(const Problem& p, const HostBuffers& buffers, double value) {
  return p.epilogue.scale_d == ScaleMode::tensor ? value * static_cast<double>(1.0f / *buffers.scale_d)
                                                 : value;
}

}  // namespace sluice
