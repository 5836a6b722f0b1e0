// SPDX-License-Identifier: Apache-2.0
// Checks that the kernels support a convolution. Called by problem_checks.cc.
#pragma once

#include <sluice/plan.h>

namespace sluice {

/// Errors: invalid_argument (no op), invalid_size, invalid_type, invalid_stride, misaligned.
Result<void> check_conv(const Conv& conv, DType inputs, DType output, const Epilogue& epilogue);

/// Checks a problem with a convolution: all its sizes, layouts and strides must follow from the convolution.
/// Errors: check_conv's, and invalid_argument.
Result<void> check_conv_problem(const Problem& problem);

}  // namespace sluice
