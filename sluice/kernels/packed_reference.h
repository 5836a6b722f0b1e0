// SPDX-License-Identifier: Apache-2.0
// The plain sums that packed products are compared with: the kernel's parameters, and the arithmetic of one
// term. Read by g++ and by NVRTC. check/packed_data.cc sums on the CPU, kernels/packed_reference.cuh on the
// GPU. Both start from the weights before packing, so that a mistake of the packer shows too.
#pragma once

#include <sluice/kernels/verify_arith.h>
#include <sluice/spec/packing.h>

namespace sluice {

/// The sums of one output: x w without scale_x; |x| times the error bounds of a weight (Weight::magnitude and
/// rounding); and x^2 spread^2, whose root is about the sum of random signs.
struct PackedSum {
  double value = 0, magnitude = 0, rounding = 0, squares = 0;
};

struct PackedReferenceParams {
  WeightFormat weights;
  DType x_type;
  i64 m, n, k, ld_x;
  const void* x;
  const u8* codes;  // n x k, a byte each
  const void* scales;
  const void* zeros;
  PackedSum* sums;  // m x n
};

namespace packed {

SLUICE_HD constexpr double code_value(WeightType type, u32 code) {
  return type == WeightType::e4m3 ? verify::decode(DType::e4m3, code) : static_cast<double>(code);
}
/// The offset that the tensor core adds to every code (docs/packed.md). It is subtracted again as a sum of
/// tokens, so it is no error. But it makes both sums larger (smaller with e4m3 tokens, whose weights it makes
/// signed).
SLUICE_HD constexpr double code_offset(WeightType type, DType x) {
  if (x == DType::e4m3) return -8.0;
  if (x != DType::bf16 || type == WeightType::e4m3) return 0.0;
  return type == WeightType::uint4 ? 16.0 : 272.0;
}

/// Half a unit in the last place of a number of the tokens' type; 0 where no weight is rounded to it.
SLUICE_HD constexpr double weight_unit(DType x) {
  return x == DType::bf16 ? 0x1p-8 : x == DType::fp16 ? 0x1p-11 : 0.0;
}

/// value: scale (code - zero). magnitude: |scale| (|code + offset| + |zero + offset|), which kernels that
/// scale sums add up. rounding: the largest error of kernels that round weights to the tokens' type. spread:
/// the value, and in units of that type's last place the loss of a zero that the type does not hold
/// (docs/numerics.md).
struct Weight {
  double value, magnitude, rounding, spread_squared;
};
/// True for a whole zero, which makes exact differences.
SLUICE_HD constexpr bool is_whole_zero(const WeightFormat& format, DType x, double zero) {
  const double most = x == DType::bf16 && format.type == WeightType::uint4 ? 239.0 : 255.0;
  return zero >= 0.0 && zero <= most && static_cast<double>(static_cast<int>(zero)) == zero;
}
/// Rounding error of a weight whose code differs from its zero by `difference`, for |scale|.
SLUICE_HD constexpr double weight_rounding(const WeightFormat& format, DType x, double difference,
                                           double scale, double zero) {
  const double unit = weight_unit(x);
  if (unit == 0.0) return 0.0;
  const bool whole = is_whole_zero(format, x, zero), half = x == DType::fp16, grouped = format.group != 0;
  const bool scale_fits = format.scale == x || (half && format.scale == DType::bf16);
  const int roundings = (grouped ? (scale_fits ? 1 : 2) : 0) + (whole ? 0 : 1);
  const double shift = !half && format.type == WeightType::uint4 ? 16.0 : 0.0;
  const double of_zero = whole ? 0.0 : unit * (verify::magnitude_of(zero) + shift) + (half ? 0x1p-18 : 0.0);
  const double subnormal = half && grouped ? (format.type == WeightType::uint4 ? 0x1p-27 : 0x1p-25) : 0.0;
  return scale * (1 + 3 * unit) * (roundings * unit * difference + of_zero) + subnormal;
}
SLUICE_HD constexpr Weight weight_of(const WeightFormat& format, DType x, u32 code, double scale,
                                     double zero) {
  const double offset = code_offset(format.type, x), q = code_value(format.type, code);
  const double value = scale * (q - zero), size = verify::magnitude_of(scale);
  const double magnitude = size * (verify::magnitude_of(q + offset) + verify::magnitude_of(zero + offset));
  const double lost = is_whole_zero(format, x, zero)
                          ? 0.0
                          : scale * (verify::magnitude_of(zero) + (offset == 16.0 ? 16.0 : 0.0));
  return {value, magnitude, weight_rounding(format, x, verify::magnitude_of(q - zero), size, zero),
          value * value + lost * lost};
}

}  // namespace packed
}  // namespace sluice
