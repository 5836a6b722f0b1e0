// SPDX-License-Identifier: Apache-2.0
// Checks that the gemm kernel can address a problem. Everything that does not depend on the configuration is
// checked here; an error gives the value, the rule and the remedy. Called by planner.cc, by code that takes
// plans from outside (ops/gemm.cc, plan/packed) and by `sluice_lab fit`. After check_problem() no 32-bit
// offset and no 63-bit byte count of the kernel can overflow. Only the number of tiles can: it depends on the
// tile (candidates.cc).
#pragma once

#include <sluice/plan.h>

namespace sluice {

/// Checks that the GPU is a Hopper. Errors: unsupported_arch, invalid_argument.
Result<void> check_device(const DeviceInfo& device);

/// Returns the problem with its strides filled in. It keeps `unaligned` only for operands where that matters.
/// Errors: invalid_size, invalid_type, invalid_stride, misaligned.
Result<Problem> check_problem(const Problem& problem);

/// Checks kind, number and pitch of groups, whatever the weights are. Errors: invalid_argument, invalid_size.
Result<void> check_group_numbers(const Problem& problem);

/// Returns nullptr if TMA can write D of this checked problem, else the reason why not.
const char* why_not_tma_store(const Problem& problem);

}  // namespace sluice
