// SPDX-License-Identifier: Apache-2.0
// A device with a driver table that counts cuLaunchKernelEx, so that a test can prove that a refused call
// launched nothing.
#pragma once

#include <sluice/gemm.h>

namespace sluice::testing {

/// Opened through the counting table; shares the primary context with gpu().
const Result<Device>& counting_device();
/// Kernels launched through it by any thread.
int launches_counted();

}  // namespace sluice::testing
