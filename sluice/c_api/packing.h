// SPDX-License-Identifier: Apache-2.0
// Checks the arrays of a packing that C callers pass (codes, scales, zero points, blob), and makes the
// library's call from them. It allocates memory only for error messages.
#pragma once

#include <sluice/c_api/array_shape.h>
#include <sluice/c_api/values.h>
#include <sluice/pack.h>

namespace sluice::c_api {

/// The arrays of one packing or unpacking. Packing writes the blob; unpacking writes all other arrays.
struct PackCall {
  WeightFormat format;
  PackShape shape;
  void *codes = nullptr, *scales = nullptr, *zeros = nullptr, *blob = nullptr;
  int memory = kOnHost;
};
/// Makes a packing call. Errors: those of format_of, invalid_argument (a missing or superfluous array),
/// invalid_type, invalid_size, invalid_stride, wrong_device (arrays in different memories).
Result<PackCall> packing_of(const sluice_packing& what);

/// Checks that the blob has the type and length that the format needs; `of_groups`: one for each group.
/// Errors: invalid_argument, invalid_type, invalid_size, invalid_stride.
Result<void> check_blob(const Named& blob, const WeightFormat& format, const PackShape& shape,
                        bool of_groups = false);

/// Packs on the CPU with the reference implementation. Errors: those of sluice/pack_weights.h; aliasing.
Result<void> pack_on_host(const PackCall& call);
Result<void> unpack_on_host(const PackCall& call);

}  // namespace sluice::c_api
