// SPDX-License-Identifier: Apache-2.0
// The norm of include/sluice/norm.h in double, and what may be called right: the kernel's fp32 is within
// kNormError of it, relatively, before what is stored is rounded. Plain and slow; for tests.
#pragma once

#include <string>

#include <sluice/spec/norm.h>

namespace sluice {

/// Of a normed value, while no sum of squares leaves fp32's range (docs/numerics.md).
inline constexpr double kNormError = 0x1p-19;

struct NormInput {
  DType type = DType::bf16;
  const void* data = nullptr;
  const void* residual = nullptr;  // nullptr: none
  const void* gamma = nullptr;
  i64 rows = 0, columns = 0, ld = 0, residual_ld = 0;
  double epsilon = 1e-5;
};

/// `sum`: rows x columns of the input's type, packed. `normed`: as many doubles.
void reference_norm(const NormInput& input, void* sum, double* normed);

/// What a kernel gave.
struct NormOutput {
  NormStore store = NormStore::plain;
  const void* data = nullptr;
  i64 ld = 0;
  const float* scales = nullptr;  // tensor: as it was given
};

struct NormFindings {
  i64 wrong = 0;       // not a rounding of a number within the bound
  i64 neighbours = 0;  // e4m3 codes beside the reference's; few, where the kernel rounds as it should
  std::string first;   // what is wrong
};
/// `normed`: of reference_norm.
NormFindings check_norm(const NormInput& input, const double* normed, const NormOutput& output);

}  // namespace sluice
