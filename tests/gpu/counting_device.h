// SPDX-License-Identifier: Apache-2.0
// A device whose driver functions count cuLaunchKernelEx, so that a test can prove that a refused call
// launched nothing.
#pragma once

#include <sluice/gemm.h>

namespace sluice::testing {

/// Returns a device whose launches are counted. It shares the primary context with gpu().
const Result<Device>& counting_device();
/// Returns the number of kernels that any thread has launched through counting_device().
int launches_counted();

}  // namespace sluice::testing
