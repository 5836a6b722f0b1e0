// SPDX-License-Identifier: Apache-2.0
// Activations: one specialisation each, without state. NaN passes through all of them.
#pragma once

#include <sluice/spec/epilogue.h>
#include <sluice/device/ptx/math.cuh>

namespace sluice {

/// x * Phi(x) as max(x, 0) - |x| * Phi(-|x|), where Phi(-a) is 2 to the power of a polynomial.
/// docs/numerics.md has its errors, docs/findings/heavy-epilogues.md the reason.
SLUICE_DEVICE float gelu(float x) {
  const float a = fminf(fabsf(x), 16.0f);  // NaN and infinity are handled by the other term
  float log2_phi = -1.24949156e-06f;
  log2_phi = fmaf(log2_phi, a, 2.00141967e-05f);
  log2_phi = fmaf(log2_phi, a, -9.27837464e-05f);
  log2_phi = fmaf(log2_phi, a, -0.000364519045f);
  log2_phi = fmaf(log2_phi, a, 0.00736085512f);
  log2_phi = fmaf(log2_phi, a, -0.0527001284f);
  log2_phi = fmaf(log2_phi, a, -0.45914194f);
  log2_phi = fmaf(log2_phi, a, -1.15111315f);
  log2_phi = fmaf(log2_phi, a, -0.999999821f);
  return fmaf(-a, ptx::exp2_approx(log2_phi), ptx::max_nan(x, 0.0f));
}

template <Activation kActivation>
SLUICE_DEVICE float activate(float x) {
  if constexpr (kActivation == Activation::relu) {
    return x < 0.0f ? 0.0f : x;  // not fmaxf, which drops NaN
  } else if constexpr (kActivation == Activation::gelu) {
    return gelu(x);
  } else if constexpr (kActivation == Activation::silu) {
    return __fdividef(x, 1.0f + __expf(-x));
  } else if constexpr (kActivation == Activation::clamped_swiglu) {
    const float gate = ptx::min_nan(x, kClampLimit);
    return __fdividef(gate, 1.0f + __expf(-kClampedSlope * gate));
  } else {
    static_assert(kActivation == Activation::none);
    return x;
  }
}

/// The factor of an activated gate. `x`: "up".
template <Activation kActivation>
SLUICE_DEVICE float gate_factor(float x) {
  if constexpr (clamps(kActivation))
    return ptx::min_nan(ptx::max_nan(x, -kClampLimit), kClampLimit) + 1.0f;
  else
    return x;
}

}  // namespace sluice
