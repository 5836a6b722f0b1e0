// SPDX-License-Identifier: Apache-2.0
// One generic launch for every kernel of the library: they all take a single __grid_constant__ struct.
// No allocation, no synchronisation; legal while the stream is capturing. The context of `function` must be
// current.
#pragma once

#include <sluice/gemm.h>
#include <sluice/host/driver/api.h>
#include <sluice/host/limits.h>
#include <sluice/spec/base.h>

namespace sluice {

struct LaunchShape {
  u32 grid_x = 1;  // CTAs, a multiple of cluster_x
  u32 grid_y = 1;  // at most kMaxGridY
  u32 block_x = 1;
  u32 cluster_x = 1;
  u32 smem_bytes = 0;  // dynamic
  /// It may start while the launch before it still runs, because the kernel waits itself
  /// (ptx::wait_for_prerequisites).
  bool dependent = false;
};

/// `params` points to the kernel's parameter struct, which is copied before the call returns.
/// Errors: wrong_device (the stream is of another context), driver.
Result<void> launch_kernel(const DriverApi& api, CUfunction function, const LaunchShape& shape,
                           const void* params, Stream stream);

}  // namespace sluice
