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

/// Sets of operands for one problem: in cold mode enough that their B's are three times the L2 cache (at
/// least two sets, at most kMaxDataBytes); else one. Filled when the call returns. Errors: driver (memory).
inline constexpr i64 kMaxDataBytes = i64{8} << 30;
Result<std::vector<ProblemData>> make_copies(const Lab& lab, const Problem& problem, Scalars scalars);
/// One such set. Not waited for.
Result<ProblemData> make_operands(const Lab& lab, const Problem& problem, Scalars scalars, u64 seed);
/// How many that is.
int copies_for(const Problem& problem, i64 l2_bytes, i64 set_bytes, bool cold);

/// Lets the contender compute set 0 twice: of small whole numbers no bit may be wrong, with gelu or silu but
/// for what the activation may be off by; then of the reals that the set holds before and after, within the
/// bounds of docs/numerics.md. A contender that is wrong on the first is not asked again. Used for every
/// dense kernel that bench, tune, run and chains time, cuBLASLt's too.
Result<Comparison> verify(const Lab& lab, const Contender& contender, ProblemData& data);

}  // namespace sluice::bench
