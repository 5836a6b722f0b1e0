// SPDX-License-Identifier: Apache-2.0
// The activations in double, for the verifier. They share nothing with device/, as verify_arith.h.
#pragma once

#include <sluice/kernels/verify_arith.h>

namespace sluice::verify {

/// x * sigmoid(slope * x).
SLUICE_DEVICE double swish(double x, double slope) {
  return x / (1.0 + exp(-slope * x));
}

SLUICE_DEVICE double activated(Activation activation, double x) {
  switch (activation) {
    case Activation::none: return x;
    case Activation::relu: return x > 0.0 || is_nan(x) ? x : 0.0;
    case Activation::gelu: return 0.5 * x * erfc(-x * 0.7071067811865476);
    case Activation::silu: return swish(x, 1.0);
    case Activation::clamped_swiglu: return swish(x > kClampLimit ? kClampLimit : x, kClampedSlope);
  }
  return x;
}
/// The factor of an activated gate. `x`: "up". NaN stays.
SLUICE_DEVICE double second_factor(Activation activation, double x) {
  if (clamps(activation) && (x > kClampLimit || x < -kClampLimit)) x = x > 0 ? kClampLimit : -kClampLimit;
  return clamps(activation) ? x + 1.0 : x;
}

}  // namespace sluice::verify
