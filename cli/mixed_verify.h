// SPDX-License-Identifier: Apache-2.0
// `sluice verify --weights`: random products of packed weights, every element of D checked. On a GPU the
// kernels; without one the packed blob's product beside the plain one, and the planner.
#pragma once

#include "cli/mixed_flags.h"
#include "cli/random_problem.h"
#include "cli/verify_tally.h"

namespace sluice::cli {

struct MixedVerify {
  FormatSpec formats;
  mixed::Overrides overrides;
};

/// Error: --weights, or a flag beside it, is none.
Result<MixedVerify> mixed_verify_of(const RequestFlags& request, const MixedFlags& flags);

Result<void> verify_mixed_on_gpu(const VerifyFlags& flags, const MixedVerify& mixed, const Device& device,
                                 Tally& tally);
Result<void> verify_mixed_on_host(const VerifyFlags& flags, const MixedVerify& mixed,
                                  const RecordBook& records, Tally& tally);

}  // namespace sluice::cli
