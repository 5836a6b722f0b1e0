// SPDX-License-Identifier: Apache-2.0
// The RMSNorm of include/sluice/norm.h in double, and the check of a kernel's output. An output is right if
// it is the rounding of a value whose relative error is at most kNormError. Simple and slow; for tests.
#pragma once

#include <string>

#include <sluice/spec/norm.h>

namespace sluice {

/// Largest relative error of a normed value, if no sum of squares exceeds fp32's range (docs/numerics.md).
inline constexpr double kNormError = 0x1p-19;

struct NormInput {
  DType type = DType::bf16;
  const void* data = nullptr;
  const void* residual = nullptr;  // nullptr: no residual
  const void* gamma = nullptr;
  i64 rows = 0, columns = 0, ld = 0, residual_ld = 0;
  double epsilon = 1e-5;
};

/// Writes the sum (input plus residual) and the normed values. `sum`: rows x columns of the input's type,
/// packed. `normed`: rows x columns doubles.
void reference_norm(const NormInput& input, void* sum, double* normed);

/// The output of a kernel.
struct NormOutput {
  NormStore store = NormStore::plain;
  const void* data = nullptr;
  i64 ld = 0;
  const float* scales = nullptr;  // for Granularity::tensor, the given scale
};

struct NormFindings {
  i64 wrong = 0;       // values that are not the rounding of any number within the bound
  i64 neighbours = 0;  // e4m3 codes adjacent to the reference's; few if the kernel rounds correctly
  std::string first;   // text of the first wrong value
};
/// `normed`: the result of reference_norm().
NormFindings check_norm(const NormInput& input, const double* normed, const NormOutput& output);

}  // namespace sluice
