// SPDX-License-Identifier: Apache-2.0
// `sluice verify --weights`: random products of packed weights, every element of D checked. On a GPU the
// kernels; without one the packed blob's product beside the plain one, and the planner.
#pragma once

#include "cli/packed_flags.h"
#include "cli/random_problem.h"
#include "cli/verify_tally.h"

namespace sluice::cli {

struct PackedVerify {
  FormatSpec formats;
  packed::Overrides overrides;
};

/// Error: --weights, or a flag beside it, is none.
Result<PackedVerify> packed_verify_of(const RequestFlags& request, const PackedFlags& flags);

Result<void> verify_packed_on_gpu(const VerifyFlags& flags, const PackedVerify& packed, const Device& device,
                                  Tally& tally);
Result<void> verify_packed_on_host(const VerifyFlags& flags, const PackedVerify& packed,
                                   const RecordBook& records, Tally& tally);

}  // namespace sluice::cli
