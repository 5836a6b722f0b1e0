// SPDX-License-Identifier: Apache-2.0
// Operations that C++ does not have. PTX ISA "ex2", "max", "min". g++ compiles this file too, with functions
// of its own, for tests/unit/activation_test.cc.
#pragma once

#include <sluice/spec/base.h>

namespace sluice::ptx {

/// 2^x with a relative error of at most 2^-22; results below 2^-126 are 0.
SLUICE_DEVICE float exp2_approx(float x) {
#ifdef __CUDACC__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return __builtin_exp2f(x);
#endif
}

/// The larger value; NaN if either is NaN.
SLUICE_DEVICE float max_nan(float x, float y) {
#ifdef __CUDACC__
  float greater;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(greater) : "f"(x), "f"(y));
  return greater;
#else
  return x > y || x != x ? x : y;
#endif
}

/// The smaller value; NaN if either is NaN.
SLUICE_DEVICE float min_nan(float x, float y) {
#ifdef __CUDACC__
  float smaller;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(smaller) : "f"(x), "f"(y));
  return smaller;
#else
  return x < y || x != x ? x : y;
#endif
}

}  // namespace sluice::ptx
