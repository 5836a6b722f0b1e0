// SPDX-License-Identifier: Apache-2.0
// Random operands of a packed product before packing, reference sums, and the check of D: host code, no
// GPU. Used by `sluice run` and bench through packed_check.h, and by tests.
#pragma once

#include <span>
#include <vector>

#include <sluice/check/verify.h>
#include <sluice/gemm.h>
#include <sluice/kernels/packed_reference.h>
#include <sluice/spec/packed.h>

namespace sluice::packed {

/// exact: tokens, codes and zero points are whole numbers, and scales (scale_x too) are powers of two. Every
/// result is then an exact fp32 number, rounded once to D's type. With k above most_exact_k(), most elements
/// of tokens are 0. real: normally distributed tokens, arbitrary scales and zero points. positive: like real,
/// with all tokens and weights above 0, so that a lost part of a sum is not hidden by cancellation.
enum class DataKind { exact, real, positive };

struct HostData {
  Problem problem;  // with its leading dimensions set
  DataKind kind = DataKind::exact;
  std::vector<u8> x;                       // row pitch ld_x, with NaN in the gaps
  std::vector<u8> codes;                   // n x k, one byte each
  std::vector<u8> scales, zeros;           // n x groups, in type weights.scale
  std::vector<u8> bias, scale_x, scale_d;  // scales are fp32
  std::vector<u8> gamma, c;                // c: row pitch ld_c, with NaN in the gaps
  float epsilon = 0;
  std::vector<double> roots;  // with norm_a, per token: 1 / sqrt(mean of squares + epsilon)
};

/// Returns random operands; equal arguments give equal bits. Errors: those of plan(); invalid_size, if k is
/// so large that sums of exact data could be inexact.
Result<HostData> random_data(const Problem& problem, DataKind kind, u64 seed);

/// Returns element `index` of an array of `type`.
double number_at(DType type, const void* base, i64 index);
/// Returns the largest magnitude of a sum that is exact in fp32 with exact data. Sums are multiples of 1/2,
/// because scales are 1/2, 1 or 2; with a scale_x they are multiples of 1/4.
double exact_limit(const Problem& problem);
/// Returns the largest k for which exact data can be nonzero everywhere and all sums still be exact.
i64 most_exact_k(Problem problem);
/// Returns an upper bound of any sum of |x w|, times the token's scale, for these tokens and any exact
/// weights. random_data() keeps it below half of exact_limit().
double largest_sum(const HostData& data);
/// Returns the factor of all sums of a token: its scale_x, or with norm_a its entry of `roots`.
double scale_of_token(const HostData& data, i64 token);
std::vector<double> roots_of(const Problem& problem, std::span<const u8> x, float epsilon);
/// Returns the tokens that are multiplied by W: x, or with norm_a the rounded product of x and gamma.
std::vector<u8> multiplied_tokens(const HostData& data);
std::vector<u8> random_residual(const Problem& problem, DataKind kind, u64 seed);

std::vector<PackedSum> reference_sums(const HostData& data);

/// Offset of D in its buffer, which begins filled with poison (0xFF). The buffer holds kGuardBytes, `shift`
/// elements, the rows of D, and kGuardBytes.
i64 d_begin(const Problem& problem, int shift);
i64 d_buffer_bytes(const Problem& problem, int shift);

// ---- packed_judge.cc: checks D ----
/// How a kernel rounds weights before it multiplies. none: it multiplies codes, and applies scales to the
/// sums. to_tokens: weight, scale and zero point are rounded to the tokens' type (wide kernel; strip kernel
/// with 16-bit tokens). either: the kernel is unknown.
enum class WeightRounding { none, to_tokens, either };
WeightRounding rounding_of(const KernelConfig& config);

/// Checks D against the error bounds of docs/numerics.md, per element and over all elements. With exact data
/// and activation none or relu, D must be act(sum + bias) rounded once. Everything outside D's elements must
/// still be poison.
Comparison judge(const HostData& data, std::span<const PackedSum> sums, std::span<const u8> d_buffer,
                 int shift, WeightRounding rounding = WeightRounding::none);

}  // namespace sluice::packed
