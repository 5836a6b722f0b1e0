// SPDX-License-Identifier: Apache-2.0
// The sums that packed products are compared with: the kernel's parameters, and the arithmetic of one term.
// Read by g++ and by NVRTC. check/packed_data.cc computes the sums on the CPU, kernels/packed_reference.cuh
// on the GPU. Both use the weights before packing, so that mistakes of the packer are found too.
#pragma once

#include <sluice/kernels/verify_arith.h>
#include <sluice/spec/packing.h>

namespace sluice {

/// The sums of one output over k. value: x w without scale_x. magnitude, rounding: |x| times the error bounds
/// of a weight of the same names (Weight). squares: x^2 spread^2, whose root is about the size of a sum with
/// random signs.
struct PackedSum {
  double value = 0, magnitude = 0, rounding = 0, squares = 0;
};

struct PackedReferenceParams {
  WeightFormat weights;
  DType x_type;
  i64 m, n, k, ld_x;
  const void* x;
  const u8* codes;  // n x k, one code per byte
  const void* scales;
  const void* zeros;
  PackedSum* sums;  // m x n
};

namespace packed {

SLUICE_HD constexpr double code_value(WeightType type, u32 code) {
  if (type == WeightType::e2m1) return 0.5 * doubled_e2m1(code);
  return type == WeightType::e4m3 ? verify::decode(DType::e4m3, code) : static_cast<double>(code);
}
/// The offset that kernels add to every code before the tensor core (docs/packed.md). They subtract offset
/// times the sum of tokens again, so the result stays the same. But rounding errors depend on the size of the
/// terms: with an offset both sums are larger (with e4m3 tokens smaller, because weights become signed).
SLUICE_HD constexpr double code_offset(WeightType type, DType x) {
  if (x == DType::e4m3) return -8.0;
  if (x != DType::bf16 || type == WeightType::e4m3 || type == WeightType::e2m1) return 0.0;
  return type == WeightType::uint4 ? 16.0 : 272.0;
}

/// Half a unit in the last place of the tokens' type; 0 if no weight is rounded to that type.
SLUICE_HD constexpr double weight_unit(DType x) {
  return x == DType::bf16 ? 0x1p-8 : x == DType::fp16 ? 0x1p-11 : 0.0;
}

/// One dequantised weight and its error bounds.
/// - value: scale (code - zero)
/// - magnitude: |scale| (|code + offset| + |zero + offset|), the terms of kernels that scale sums
/// - rounding: the largest error in kernels that round weights to the tokens' type
/// - spread_squared: the square of the value, plus that of what is lost of a zero that the tokens' type
///   cannot hold, in units of that type's last place (docs/numerics.md)
struct Weight {
  double value, magnitude, rounding, spread_squared;
};
/// True if the zero is an integer for which code - zero is exact.
SLUICE_HD constexpr bool is_whole_zero(const WeightFormat& format, DType x, double zero) {
  const double most = x == DType::bf16 && format.type == WeightType::uint4 ? 239.0 : 255.0;
  return zero >= 0.0 && zero <= most && static_cast<double>(static_cast<int>(zero)) == zero;
}
/// Bound for the rounding error of a weight whose code differs from its zero by `difference`. `scale`:
/// |scale|.
SLUICE_HD constexpr double weight_rounding(const WeightFormat& format, DType x, double difference,
                                           double scale, double zero) {
  const double unit = weight_unit(x);
  if (unit == 0.0 || format.type == WeightType::e2m1) return 0.0;  // e2m1 times a power of two is exact
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
