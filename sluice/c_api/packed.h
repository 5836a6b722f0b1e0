// SPDX-License-Identifier: Apache-2.0
// From C's values and arrays to packings and mixed products. Nothing is copied and nothing guessed: what does
// not fit is an Error that names the array, what it got, what is wanted and how to get there. Success
// allocates nothing.
#pragma once

#include <sluice/c_api.h>
#include <sluice/mixed.h>
#include <sluice/pack.h>

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

Result<MixedProblem> problem_of(const sluice_mixed_problem& values);
sluice_mixed_problem values_of(const MixedProblem& problem);

struct MixedCall {
  MixedProblem problem;
  mixed::Args args;
  int device = -1;  // of the arrays: a CUDA ordinal, or -1 if they are not on a GPU
};
/// Errors: those of packing_of.
Result<MixedCall> mixed_of(const sluice_mixed_product& product);
/// Error wrong_device: the arrays of `product` are not on the GPU with this ordinal.
Error not_on_device(const sluice_mixed_product& product, int ordinal);
/// An error of planning or launching, which speaks of X and D, for a caller who calls them otherwise.
Error with_names(const sluice_mixed_product& product, Error error);

}  // namespace sluice::c_api
