// SPDX-License-Identifier: Apache-2.0
// Is this a problem that the gemm kernel can address at all? Everything that does not depend on the choice of
// a configuration is refused here, with the value, the rule and the remedy. Called by planner.cc, by what
// takes plans from outside (ops/gemm.cc, planner/packed) and by `sluice_fit`. Invariant: after
// check_problem no 32-bit offset and no 63-bit byte count of the kernel can overflow, apart from the number
// of tiles, which depends on the tile (candidates.cc).
#pragma once

#include <sluice/plan.h>

namespace sluice {

/// Errors: unsupported_arch, invalid_argument.
Result<void> check_device(const DeviceInfo& device);

/// The problem with its strides filled in, and `unaligned` where it says something.
/// Errors: invalid_size, invalid_type, invalid_stride, misaligned.
Result<Problem> check_problem(const Problem& problem);

/// The product of a convolution, checked once: its sizes, layouts and strides follow from the convolution.
/// Errors: those of check_conv and check_problem.
Result<Problem> checked_product(const Conv& conv, DType inputs, DType output, const Epilogue& epilogue);

/// nullptr if TMA can write D of this (checked) problem, else the reason.
const char* why_not_tma_store(const Problem& problem);

}  // namespace sluice
