// SPDX-License-Identifier: Apache-2.0
// Workspace functions for the lender, beside include/sluice/gemm.h.
#pragma once

#include <sluice/gemm.h>

namespace sluice {

/// Zeroes all of it, in a stream of its own, and waits. Waiting for the context or using the default stream
/// would end other threads' captures. For memory that no launch uses. Error driver.
Result<void> zero_now(const Device& device, Workspace workspace);

}  // namespace sluice
