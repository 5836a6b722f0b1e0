// SPDX-License-Identifier: Apache-2.0
// Makes a packing from C's arrays: codes, scales, zeros and the blob. Success allocates nothing.
#pragma once

#include <sluice/c_api/array_shape.h>
#include <sluice/c_api/values.h>
#include <sluice/pack.h>

namespace sluice::c_api {

/// The arrays of one packing. The direction decides which are read and which are written.
struct PackCall {
  WeightFormat format;
  PackShape shape;
  void *codes = nullptr, *scales = nullptr, *zeros = nullptr, *blob = nullptr;
  int memory = kOnHost;
};
/// Makes a packing call. Errors: format_of's, invalid_argument (a missing array, or one too many),
/// invalid_type, invalid_size, invalid_stride, wrong_device (arrays in several memories).
Result<PackCall> packing_of(const sluice_packing& what);

/// Errors: invalid_argument, invalid_type, invalid_size, invalid_stride.
Result<void> check_blob(const Named& blob, const WeightFormat& format, const PackShape& shape);

/// Packs on the CPU by the definition of the format. Errors: those of reference/packed_weights.h; aliasing.
Result<void> pack_on_host(const PackCall& call);
Result<void> unpack_on_host(const PackCall& call);

}  // namespace sluice::c_api
