// SPDX-License-Identifier: Apache-2.0
// Computes a packed product without a GPU from the blob that the reference packs, so that the format is
// tested too.
#pragma once

#include <sluice/check/packed_data.h>

namespace sluice::bench {

/// Returns the reference D in the form that judge() reads, with poison before and after it. It sums the
/// blob's weights in double and rounds once. Errors: those of pack_weights.
Result<std::vector<u8>> reference_d(const packed::HostData& data, int shift);

/// Compares reference_d() with plain sums over the unpacked codes. Checks the packing without a GPU.
Result<Comparison> compare_on_host(const Problem& problem, packed::DataKind kind, u64 seed);

}  // namespace sluice::bench
