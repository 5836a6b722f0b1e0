// SPDX-License-Identifier: Apache-2.0
// From C's values and arrays to packings and packed products. Nothing is copied and nothing guessed: what
// does not fit is an Error that names the array, what it got, what is wanted and how to get there. Success
// allocates nothing.
#pragma once

#include <sluice/c_api.h>
#include <sluice/pack.h>
#include <sluice/packed.h>

namespace sluice::c_api {

/// Errors: invalid_argument (no enumerator), invalid_config (a rule of formats).
Result<WeightFormat> format_of(const sluice_weight_format& values);
sluice_weight_format values_of(const WeightFormat& format);

/// Errors: those of format_of; invalid_size.
Result<sluice_packed_numbers> numbers_of(const WeightFormat& format, i64 n, i64 k);

/// Arrays of one packing, to read or to write as the direction wants.
struct PackCall {
  WeightFormat format;
  PackShape shape;
  void *codes = nullptr, *scales = nullptr, *zeros = nullptr, *blob = nullptr;
  int device = -1;  // a CUDA ordinal, or -1 in host memory
};
/// Errors: those of format_of; invalid_argument (missing, or one too many), invalid_type, invalid_size,
/// invalid_stride, wrong_device (arrays in several memories).
Result<PackCall> packing_of(const sluice_packing& what);

/// By the definition of the format, on the CPU. Errors: those of reference/packed_weights.h; aliasing.
Result<void> pack_on_host(const PackCall& call);
Result<void> unpack_on_host(const PackCall& call);

Result<PackedProblem> problem_of(const sluice_packed_problem& values);
sluice_packed_problem values_of(const PackedProblem& problem);

struct PackedCall {
  PackedProblem problem;
  packed::Args args;
  int device = -1;  // of the arrays: a CUDA ordinal, or -1 if they are not on a GPU
};
/// Errors: those of packing_of.
Result<PackedCall> packed_of(const sluice_packed_product& product);
/// Error wrong_device: the arrays of `product` are not on the GPU with this ordinal.
Error not_on_device(const sluice_packed_product& product, int ordinal);
/// An error of planning or launching, which speaks of X and D, for a caller who calls them otherwise.
Error with_names(const sluice_packed_product& product, Error error);

}  // namespace sluice::c_api
