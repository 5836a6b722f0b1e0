// SPDX-License-Identifier: Apache-2.0
// Packs and unpacks weights on the CPU, code by code, by the definition in spec/packing.h. The GPU's packer
// must match it byte for byte; `sluice pack` and tests call it. Errors: invalid_config, invalid_size,
// invalid_pointer, invalid_argument (a code that is too large).
#pragma once

#include <vector>

#include <sluice/result.h>
#include <sluice/spec/packed_codes.h>
#include <sluice/spec/packed_slices.h>

namespace sluice {

/// Weights in the caller's order: row-major, without gaps.
struct WeightArrays {
  i64 n = 0, k = 0;
  const u8* codes = nullptr;     // n x k, one byte per code
  const void* scales = nullptr;  // n x group_count values of format.scale
  const void* zeros = nullptr;   // n x group_count values of format.scale, if the format stores zeros
  bool gated = false;            // W has n / 2 rows of the gate, then n / 2 rows of "up"
};

/// A blob with its format and size.
struct PackedWeights {
  WeightFormat format;
  i64 n = 0, k = 0;
  const u8* blob = nullptr;  // blob_bytes(format, n, k) bytes; gated: gated_blob_bytes()
  bool gated = false;
};

struct UnpackedWeights {
  std::vector<u8> codes;
  std::vector<u8> scales, zeros;  // values as bytes
};

Result<std::vector<u8>> pack_weights(const WeightFormat& format, const WeightArrays& arrays);

/// Returns the arrays that were packed, bit for bit.
Result<UnpackedWeights> unpack_weights(const PackedWeights& weights);

/// Returns n x k values: scale * (code - zero), rounded once to double (exact for 16-bit scales and integer
/// zero points).
Result<std::vector<double>> dequantise_weights(const PackedWeights& weights);

/// Return the blob of rows [begin, end), or of k in [begin, end), copied from the whole blob. Error:
/// invalid_argument if the weights are gated: slice each half instead.
Result<std::vector<u8>> slice_packed_rows(const PackedWeights& weights, SliceRange rows);
Result<std::vector<u8>> slice_packed_k(const PackedWeights& weights, SliceRange part);

}  // namespace sluice
