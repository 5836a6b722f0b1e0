// SPDX-License-Identifier: Apache-2.0
// Random operands of a packed product before packing, reference sums, and the judgement of D: host code, no
// GPU. Used by `sluice run` and bench through packed_check.h, and by tests.
#pragma once

#include <span>
#include <vector>

#include <sluice/check/verify.h>
#include <sluice/kernels/packed_reference.h>
#include <sluice/packed.h>

namespace sluice::packed {

/// exact: whole tokens, codes and zeros, and scales (scale_x too) that are powers of two. Every result is one
/// rounding of a number that fp32 holds; of a k past most_exact_k() most tokens are zeros. real: normally
/// distributed tokens, arbitrary scales and zeros. positive: like real, with all tokens and weights above 0,
/// so that lost parts of a sum do not cancel.
enum class DataKind { exact, real, positive };

struct HostData {
  PackedProblem problem;  // leading dimensions filled in
  DataKind kind = DataKind::exact;
  std::vector<u8> x;                       // rows are ld_x apart, with NaN between
  std::vector<u8> codes;                   // n x k, one byte each
  std::vector<u8> scales, zeros;           // n x groups, in type weights.scale
  std::vector<u8> bias, scale_x, scale_d;  // scales are fp32
  std::vector<u8> gamma, c;                // rows of c are ld_c apart, with NaN between
  float epsilon = 0;
  std::vector<double> roots;  // with norm_x, for each token: 1 / sqrt(mean of squares + epsilon)
};

/// Equal arguments give equal bits. Errors: as plan(); invalid_size (exact data could be inexact).
Result<HostData> random_data(const PackedProblem& problem, DataKind kind, u64 seed);

/// Element `index` of an array of `type`.
double number_at(DType type, const void* base, i64 index);
/// Largest sum that exact data keep exact. Scales of 1/2, 1 or 2 make sums multiples of 1/2; with a scale_x,
/// of 1/4.
double exact_limit(const PackedProblem& problem);
/// Largest k for which exact data keep all sums exact without tokens that are zeros.
i64 most_exact_k(PackedProblem problem);
/// The most that a sum of magnitudes, times the token's scale, can come to with these tokens and any weights
/// of exact data. random_data() keeps it below half of exact_limit().
double largest_sum(const HostData& data);
/// The factor of a token's sums: its scale, or with norm_x its root.
double scale_of_token(const HostData& data, i64 token);
std::vector<double> roots_of(const PackedProblem& problem, std::span<const u8> x, float epsilon);
/// The tokens that are multiplied: x, or with norm_x x times gamma, rounded.
std::vector<u8> multiplied_tokens(const HostData& data);
std::vector<u8> random_residual(const PackedProblem& problem, DataKind kind, u64 seed);

std::vector<PackedSum> reference_sums(const HostData& data);

/// D's buffer of poison (0xFF): kGuardBytes, `shift` elements, the rows, kGuardBytes.
i64 d_begin(const PackedProblem& problem, int shift);
i64 d_buffer_bytes(const PackedProblem& problem, int shift);

// ---- the judge: packed_judge.cc ----
/// Rounding of weights before they are multiplied. none: sums are scaled instead. to_tokens: weight, scale
/// and zero are rounded to the tokens' type (wide kernel; strip kernel with 16-bit tokens). either: the
/// kernel is unknown.
enum class WeightRounding { none, to_tokens, either };
WeightRounding rounding_of(const PackedConfig& config);

/// Judges D against the bounds of docs/numerics.md, for each element and for all together. Exact data with
/// activation none or relu must be the one rounding of act(sum + bias). Everything outside D's elements must
/// be poison.
Comparison judge(const HostData& data, std::span<const PackedSum> sums, std::span<const u8> d_buffer,
                 int shift, WeightRounding rounding = WeightRounding::none);

}  // namespace sluice::packed
