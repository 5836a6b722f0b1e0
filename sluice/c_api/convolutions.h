// SPDX-License-Identifier: Apache-2.0
// Makes a convolution and its arguments from arrays as DLPack describes them, in torch's order of dimensions
// and with strides of channels_last. It copies nothing. An array that no kernel takes is an Error with the
// argument, its value, the rule and the remedy. Success allocates nothing.
#pragma once

#include <sluice/c_api/array_shape.h>
#include <sluice/c_api/values.h>
#include <sluice/conv.h>

namespace sluice::c_api {

struct ConvCall {
  Conv conv{};
  Problem problem{};  // the product that computes it
  gemm::Args args{};
  int memory = kOnHost;  // where all arrays lie: a CUDA ordinal, or kOnHost
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

/// The arrays of a convolution by their part in the product that computes it: A and B are read, D is written.
struct ConvRoles {
  ConvName a, b, d;
};
/// Returns the roles for an op; those of SLUICE_FPROP for a number that is no op.
ConvRoles roles_of(int32_t op);

/// Makes the call. Errors: invalid_argument (a missing array, no op), invalid_type, invalid_size,
/// invalid_stride, wrong_device (arrays in several memories), conv::problem's.
Result<ConvCall> call_of(const sluice_convolution& convolution);

/// Describes the call as a problem that sluice_plan_create takes.
sluice_problem values_of(const ConvCall& call);

/// Adds the caller's names of A, B and D to an error of planning or launching.
Error with_names(const sluice_convolution& convolution, Error error);

// ---- conv_values.cc: sizes
/// Converts sizes. Errors: invalid_argument (spatial), invalid_size (a value that no int holds).
Result<Conv> conv_of(const sluice_conv_sizes& sizes);
/// Error invalid_argument: no number of axes, 1 to 3.
Result<void> check_spatial(int32_t spatial);
sluice_conv_sizes values_of(const Conv& conv);

}  // namespace sluice::c_api
