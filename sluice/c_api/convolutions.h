// SPDX-License-Identifier: Apache-2.0
// Makes a convolution and its arguments from arrays in DLPack's terms: torch's order of dimensions, and
// channels_last strides. It copies nothing. An array that no kernel takes is an Error that states the
// argument, its value, the rule and the remedy. It allocates memory only for error messages.
#pragma once

#include <sluice/c_api/array_shape.h>
#include <sluice/c_api/values.h>
#include <sluice/conv.h>

namespace sluice::c_api {

struct ConvCall {
  Conv conv{};
  Problem problem{};  // the matrix product that computes the convolution
  gemm::Args args{};
  int memory = kOnHost;  // the memory of all arrays: a CUDA ordinal, or kOnHost
};

/// The indices of sluice_convolution::names.
enum ConvName {
  kConvX,
  kConvW,
  kConvY,
  kConvBias,
  kConvC,
  kConvScaleX,
  kConvScaleW,
  kConvScaleD,
  kConvArrays
};

/// Returns an array of the convolution with the caller's name for it.
Named named(const sluice_convolution& convolution, ConvName which);

/// Which arrays of a convolution are A, B (read) and D (written) of the matrix product that computes it.
struct ConvRoles {
  ConvName a, b, d;
};
/// Returns the roles for an op; those of SLUICE_FPROP if `op` is not an op's number.
ConvRoles roles_of(int32_t op);

/// Makes the call. Errors: invalid_argument (a missing array or an unknown op), invalid_type, invalid_size,
/// invalid_stride, wrong_device (arrays in different memories); those of conv::problem.
Result<ConvCall> call_of(const sluice_convolution& convolution);

/// Returns the call's problem as the C struct that sluice_plan_create takes.
sluice_problem values_of(const ConvCall& call);

/// Adds the caller's names of A, B and D to an error of planning or launching.
Error with_names(const sluice_convolution& convolution, Error error);

// ---- conv_values.cc: sizes
/// Converts sizes. Errors: invalid_argument (`spatial`), invalid_size (a value that does not fit an int).
Result<Conv> conv_of(const sluice_conv_sizes& sizes);
/// Checks that `spatial` is 1, 2 or 3. Error: invalid_argument.
Result<void> check_spatial(int32_t spatial);
sluice_conv_sizes values_of(const Conv& conv);

}  // namespace sluice::c_api
