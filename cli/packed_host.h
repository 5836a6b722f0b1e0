// SPDX-License-Identifier: Apache-2.0
// A packed product without a GPU, computed from the reference's packed blob, so that the format is tested
// too.
#pragma once

#include <sluice/check/packed_data.h>

namespace sluice::cli {

/// D as judge() takes it, between guards of poison: sums of the blob's weights in double, rounded once.
/// Errors: those of pack_weights.
Result<std::vector<u8>> reference_d(const packed::HostData& data, int shift);

/// Compares that D with the plain sums.
Result<Comparison> compare_on_host(const PackedProblem& problem, packed::DataKind kind, u64 seed);

}  // namespace sluice::cli
