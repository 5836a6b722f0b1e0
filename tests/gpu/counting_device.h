// SPDX-License-Identifier: Apache-2.0
// A device whose launches are counted, by a driver table in which cuLaunchKernelEx counts and passes on. So a
// test can prove that a refused call launched nothing.
#pragma once

#include <sluice/gemm.h>

namespace sluice::testing {

/// Opened through the counting table; shares the primary context with gpu().
const Result<Device>& counting_device();
/// Kernels launched through it so far, by any thread.
int launches_counted();

}  // namespace sluice::testing
