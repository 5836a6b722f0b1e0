// SPDX-License-Identifier: Apache-2.0
// Random operands of a packed product as their owner has them, the plain sums, and the judgement of a D: host
// code, no GPU. Used by `sluice run` and bench through packed_check.h, and by tests.
#pragma once

#include <span>
#include <vector>

#include <sluice/check/verify.h>
#include <sluice/kernels/packed_reference.h>
#include <sluice/packed.h>

namespace sluice::packed {

/// exact: whole tokens, codes and zeros, scales (scale_x too) that are powers of two: every result is one
/// rounding of a number that fp32 holds. real: bell-shaped tokens, arbitrary scales and zeros. positive: the
/// same with every token and weight above 0: what a sum loses does not cancel out.
enum class DataKind { exact, real, positive };

struct HostData {
  PackedProblem problem;  // leading dimensions filled in
  DataKind kind = DataKind::exact;
  std::vector<u8> x;                       // ld_x apart; what lies between rows is NaN
  std::vector<u8> codes;                   // n x k, a byte each
  std::vector<u8> scales, zeros;           // n x groups, of weights.scale
  std::vector<u8> bias, scale_x, scale_d;  // scales of fp32
  std::vector<u8> gamma, c;                // c: ld_c apart; what lies between rows is NaN
  float epsilon = 0;
  std::vector<double> roots;  // with norm_x, of each token: 1 / sqrt(mean of squares + epsilon)
};

/// Equal arguments give equal bits. Errors: those of plan().
Result<HostData> random_data(const PackedProblem& problem, DataKind kind, u64 seed);

/// An element of an array of `type`.
double number_at(DType type, const void* base, i64 index);
/// Up to which sums of exact data are exact: scales are 1/2, 1 or 2, so that sums are multiples of 1/2, and
/// with a scale_x of 1/4.
double exact_limit(const PackedProblem& problem);
/// Up to which k exact data keep all sums exact.
i64 most_exact_k(PackedProblem problem);
/// What the sums of a token are multiplied with: its scale, or with norm_x its root.
double scale_of_token(const HostData& data, i64 token);
/// HostData::roots of tokens as they lie in memory.
std::vector<double> roots_of(const PackedProblem& problem, std::span<const u8> x, float epsilon);
/// What is multiplied: x, or with norm_x x times gamma, rounded.
std::vector<u8> multiplied_tokens(const HostData& data);
/// A C for the problem, of numbers that suit `kind`.
std::vector<u8> random_residual(const PackedProblem& problem, DataKind kind, u64 seed);

/// m x n, on the CPU.
std::vector<PackedSum> reference_sums(const HostData& data);

/// Where a D lies in a buffer of poison (0xFF): kGuardBytes, `shift` elements, its rows, kGuardBytes.
i64 d_begin(const PackedProblem& problem, int shift);
i64 d_buffer_bytes(const PackedProblem& problem, int shift);

// ---- the judge: packed_judge.cc ----
/// What becomes of a weight before it is multiplied. none: nothing, sums are scaled.
/// to_tokens: it is rounded to the tokens' type, and so are its scale and zero (the wide kernel, and the
/// strip kernel with 16-bit tokens). either: for who does not know the kernel.
enum class WeightRounding { none, to_tokens, either };
WeightRounding rounding_of(const PackedConfig& config);

/// One rounding of act(sum + bias), or all that the stated bounds (docs/numerics.md) allow, of each element
/// and of all together: for exact data with activation none or relu every other bit is wrong. Everything
/// outside of D's elements must be poison.
Comparison judge(const HostData& data, std::span<const PackedSum> sums, std::span<const u8> d_buffer,
                 int shift, WeightRounding rounding = WeightRounding::none);

}  // namespace sluice::packed
