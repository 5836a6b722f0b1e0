// SPDX-License-Identifier: Apache-2.0
// Functions of workspaces for the lender, in addition to include/sluice/gemm.h.
#pragma once

#include <sluice/gemm.h>

namespace sluice {

/// Zeroes the whole workspace in a stream of its own, and waits. Waiting for the context, or using the
/// default stream, would end captures of other threads. No launch may be using the workspace. Error driver.
Result<void> zero_now(const Device& device, Workspace workspace);

}  // namespace sluice
