// SPDX-License-Identifier: Apache-2.0
// Arithmetic that C++ has no name for. PTX ISA "ex2", "max".
#pragma once

#include <sluice/spec/base.h>

namespace sluice::ptx {

/// 2^x within 2^-22 of itself; results below 2^-126 are 0.
SLUICE_DEVICE float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// NaN if either is.
SLUICE_DEVICE float max_nan(float x, float y) {
  float greater;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(greater) : "f"(x), "f"(y));
  return greater;
}

}  // namespace sluice::ptx
