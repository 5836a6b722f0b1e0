// SPDX-License-Identifier: Apache-2.0
// Our kernels as contenders: a prepared plan and the copies of operands it runs on.
#pragma once

#include <span>

#include "bench/contender/contender.h"
#include "bench/lab.h"
#include "bench/operands/operands.h"

namespace sluice::bench {

/// Operands are borrowed: they must outlive the contender.
Contender sluice_contender(const Lab& lab, const gemm::Kernel& kernel, std::span<const ProblemData> copies,
                           const std::string& name);

/// Makes sets of operands for one problem, filled when the call returns. Cold: two or more, until their B's
/// (of a convolution: both inputs, since its filter is small) are three times the L2 cache, at most
/// kMaxDataBytes. Warm: one. Errors: driver (memory).
inline constexpr i64 kMaxDataBytes = i64{8} << 30;
Result<std::vector<ProblemData>> make_copies(const Lab& lab, const Problem& problem, Scalars scalars,
                                             const Conv& conv = {});
/// Makes one such set without waiting for it.
Result<ProblemData> make_operands(const Lab& lab, const Problem& problem, Scalars scalars, u64 seed);
/// The number of sets that make_copies makes.
int copies_for(const Problem& problem, i64 l2_bytes, i64 set_bytes, bool cold, const Conv& conv = {});

/// Checks the contender on set 0, twice. On small whole numbers every bit must be right (gelu and silu: up to
/// the activation's error). Then, on the set's own real numbers, errors must be within the bounds of
/// docs/numerics.md. A contender that fails the first check skips the second. Used for each dense kernel that
/// is timed, cuBLASLt's too.
Result<Comparison> verify(const Lab& lab, const Contender& contender, ProblemData& data);

}  // namespace sluice::bench
