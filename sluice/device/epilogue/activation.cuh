// SPDX-License-Identifier: Apache-2.0
// Activations: stateless, one specialisation each. NaN goes through all of them.
#pragma once

#include <sluice/spec/epilogue.h>

namespace sluice {

template <Activation kActivation>
SLUICE_DEVICE float activate(float x) {
  if constexpr (kActivation == Activation::relu) {
    return x < 0.0f ? 0.0f : x;  // not fmaxf, which drops NaN
  } else if constexpr (kActivation == Activation::gelu) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
  } else if constexpr (kActivation == Activation::silu) {
    return __fdividef(x, 1.0f + __expf(-x));
  } else {
    return x;
  }
}

}  // namespace sluice
