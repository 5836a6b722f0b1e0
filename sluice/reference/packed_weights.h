// SPDX-License-Identifier: Apache-2.0
// Packed weights by their definition (spec/packing.h): one code after the other, on the CPU. The GPU's packer
// is held to it byte for byte; `sluice pack` and tests call it. Errors: invalid_config, invalid_size,
// invalid_pointer, invalid_argument (a code that is too large).
#pragma once

#include <vector>

#include <sluice/result.h>
#include <sluice/spec/packed_codes.h>
#include <sluice/spec/packed_slices.h>

namespace sluice {

/// Weights as their owner has them, row-major and without gaps.
struct WeightArrays {
  i64 n = 0, k = 0;
  const u8* codes = nullptr;     // n x k, a byte each
  const void* scales = nullptr;  // n x group_count, of format.scale
  const void* zeros = nullptr;   // the same, if the format stores them
};

/// A blob and what it holds.
struct PackedWeights {
  WeightFormat format;
  i64 n = 0, k = 0;
  const u8* blob = nullptr;  // blob_bytes(format, n, k) of them
};

struct UnpackedWeights {
  std::vector<u8> codes;
  std::vector<u8> scales, zeros;  // bytes of them
};

Result<std::vector<u8>> pack_weights(const WeightFormat& format, const WeightArrays& arrays);

/// The arrays again, bit for bit.
Result<UnpackedWeights> unpack_weights(const PackedWeights& weights);

/// n x k: scale * (code - zero), rounded once to double (exact for 16-bit scales and integer zeros).
Result<std::vector<double>> dequantise_weights(const PackedWeights& weights);

/// The blobs of rows [begin, end), and of k in [begin, end): plain copies.
Result<std::vector<u8>> slice_packed_rows(const PackedWeights& weights, SliceRange rows);
Result<std::vector<u8>> slice_packed_k(const PackedWeights& weights, SliceRange part);

}  // namespace sluice
