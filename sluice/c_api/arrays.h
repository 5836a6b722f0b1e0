// SPDX-License-Identifier: Apache-2.0
// From arrays, as DLPack describes them, to a problem and its arguments: which index is contiguous, how the
// scales apply, whether the sizes agree. Nothing is copied and nothing guessed: what no kernel takes is an
// Error that names the argument, what it got, what is wanted and how to get there. Success allocates nothing.
#pragma once

#include <sluice/c_api.h>
#include <sluice/gemm.h>

namespace sluice::c_api {

struct ProblemAndArgs {
  Problem problem;
  gemm::Args args;
  int device = -1;  // of the arrays: a CUDA ordinal, or -1 if they are not on a GPU
};

/// Errors: invalid_argument (missing), invalid_type, invalid_size, invalid_stride, wrong_device (arrays on
/// several devices).
Result<ProblemAndArgs> problem_of(const sluice_product& product);

Result<Problem> problem_of(const sluice_problem& values);
sluice_problem values_of(const Problem& problem);

/// Error wrong_device: the arrays of `product` are not on the GPU with this ordinal.
Result<void> check_device_of(const sluice_product& product, int ordinal);

/// An error of planning or launching, which speaks of A, B and D, for a caller who calls them otherwise.
Error with_names(const sluice_product& product, Error error);

}  // namespace sluice::c_api
