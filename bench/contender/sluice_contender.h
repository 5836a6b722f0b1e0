// SPDX-License-Identifier: Apache-2.0
// Makes contenders of sluice's dense kernels: a prepared plan, and the sets of operands that it runs on.
#pragma once

#include <span>

#include "bench/contender/contender.h"
#include "bench/lab.h"
#include "bench/operands/operands.h"

namespace sluice::bench {

/// Makes the contender of a sluice kernel. The operands must outlive it.
Contender sluice_contender(const Lab& lab, const gemm::Kernel& kernel, std::span<const ProblemData> copies,
                           const std::string& name);

/// Makes sets of operands for one problem, already filled. Warm: one set. Cold: at least two, until all their
/// B together are three times the L2 cache, at most kMaxDataBytes. A convolution counts both inputs instead
/// of B, since its filter is small. Errors: driver (out of memory).
inline constexpr i64 kMaxDataBytes = i64{8} << 30;
Result<std::vector<ProblemData>> make_copies(const Lab& lab, const Problem& stated, Scalars scalars);
/// Makes one set of operands without waiting for its fill.
Result<ProblemData> make_operands(const Lab& lab, const Problem& problem, Scalars scalars, u64 seed);
/// Number of sets that make_copies makes.
int copies_for(const Problem& problem, i64 l2_bytes, i64 set_bytes, bool cold);

/// Checks the contender twice on operand set 0. First on small whole numbers, where every bit must be right
/// (gelu and silu: up to the activation's error). Then on the set's own real numbers, where errors must be
/// within the bounds of docs/numerics.md. If the first check fails, the second is skipped. Used for each
/// dense kernel that is timed, cuBLASLt's too.
Result<Comparison> verify(const Lab& lab, const Contender& contender, ProblemData& data);

}  // namespace sluice::bench
