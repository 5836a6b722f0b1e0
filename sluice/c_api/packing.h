// SPDX-License-Identifier: Apache-2.0
// From C's arrays to a packing: codes, scales, zeros and the blob. Success allocates nothing.
#pragma once

#include <sluice/c_api/array_shape.h>
#include <sluice/c_api/values.h>
#include <sluice/pack.h>

namespace sluice::c_api {

/// Arrays of one packing, to read or to write as the direction wants.
struct PackCall {
  WeightFormat format;
  PackShape shape;
  void *codes = nullptr, *scales = nullptr, *zeros = nullptr, *blob = nullptr;
  int memory = kOnHost;
};
/// Errors: those of format_of; invalid_argument (missing, or one too many), invalid_type, invalid_size,
/// invalid_stride, wrong_device (arrays in several memories).
Result<PackCall> packing_of(const sluice_packing& what);

/// Errors: invalid_argument, invalid_type, invalid_size, invalid_stride.
Result<void> check_blob(const Named& blob, const WeightFormat& format, i64 n, i64 k);

/// By the definition of the format, on the CPU. Errors: those of reference/packed_weights.h; aliasing.
Result<void> pack_on_host(const PackCall& call);
Result<void> unpack_on_host(const PackCall& call);

}  // namespace sluice::c_api
