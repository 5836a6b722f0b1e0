// SPDX-License-Identifier: Apache-2.0
// What the lender needs of a workspace beside include/sluice/gemm.h.
#pragma once

#include <sluice/gemm.h>

namespace sluice {

/// Zeroes all of it and waits until that is done, in a stream of its own: a wait for the context, or work in
/// the default stream, would end other threads' captures. For memory that no launch uses. Error driver.
Result<void> zero_now(const Device& device, Workspace workspace);

}  // namespace sluice
