// SPDX-License-Identifier: Apache-2.0
// A packed product without a GPU: through the packed blob of the reference, so that the format is run too.
#pragma once

#include <sluice/check/packed_data.h>

namespace sluice::cli {

/// A buffer as judge() takes it (D between guards of poison), with what the blob's weights give in double,
/// rounded once. Errors: those of pack_weights.
Result<std::vector<u8>> reference_d(const packed::HostData& data, int shift);

/// That D beside the plain sums; what is wrong with it, or that all is well.
Result<Comparison> compare_on_host(const PackedProblem& problem, packed::DataKind kind, u64 seed);

}  // namespace sluice::cli
