// SPDX-License-Identifier: Apache-2.0
// The plain sums that mixed products are held to: what the kernel is given, and the arithmetic of one term.
// Read by g++ and by NVRTC. host/mixed_data.cc sums on the CPU, kernels/mixed_reference.cuh on the GPU, both
// from the weights as their owner has them, before packing: a mistake of the packer shows too.
#pragma once

#include <sluice/kernels/verify_arith.h>
#include <sluice/spec/packing.h>

namespace sluice {

/// Of one output: sum x w, without scale_x, and what bounds its error (Weight::magnitude).
struct MixedSum {
  double value = 0, magnitude = 0;
};

struct MixedReferenceParams {
  WeightFormat weights;
  DType x_type;
  i64 m, n, k, ld_x;
  const void* x;
  const u8* codes;  // n x k, a byte each
  const void* scales;
  const void* zeros;
  MixedSum* sums;  // m x n
};

namespace mixed {

SLUICE_HD constexpr double code_value(WeightType type, u32 code) {
  return type == WeightType::e4m3 ? verify::decode(DType::e4m3, code) : static_cast<double>(code);
}
/// What the tensor core adds to every code (docs/mixed.md): it is taken away again as a sum of tokens, so it
/// is no error, but it makes both sums larger (smaller with e4m3 tokens, whose weights it makes signed).
SLUICE_HD constexpr double code_offset(WeightType type, DType x) {
  if (x == DType::e4m3) return -8.0;
  if (x != DType::bf16 || type == WeightType::e4m3) return 0.0;
  return type == WeightType::uint4 ? 16.0 : 272.0;
}

struct Weight {
  double value, magnitude;  // scale (code - zero), |scale| (|code + offset| + |zero + offset|)
};
SLUICE_HD constexpr Weight weight_of(const WeightFormat& format, DType x, u32 code, double scale,
                                     double zero) {
  const double offset = code_offset(format.type, x), q = code_value(format.type, code);
  return {scale * (q - zero), verify::magnitude_of(scale) *
                                  (verify::magnitude_of(q + offset) + verify::magnitude_of(zero + offset))};
}

}  // namespace mixed
}  // namespace sluice
