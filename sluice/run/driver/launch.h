// SPDX-License-Identifier: Apache-2.0
// One launch function for all kernels of the library: each takes a single __grid_constant__ struct. It
// neither allocates nor synchronises, and is allowed during capture. The context of `function` must be
// current.
#pragma once

#include <sluice/gemm.h>
#include <sluice/plan/limits.h>
#include <sluice/run/driver/api.h>
#include <sluice/spec/base.h>

namespace sluice {

struct LaunchShape {
  u32 grid_x = 1;  // in CTAs, a multiple of cluster_x
  u32 grid_y = 1;  // in CTAs, at most kMaxGridY
  u32 block_x = 1;
  u32 cluster_x = 1;
  u32 smem_bytes = 0;  // dynamic
  /// true: the kernel may start while the previous launch still runs (programmatic dependent launch). The
  /// kernel itself waits for that launch (ptx::wait_for_prerequisites).
  bool dependent = false;
};

/// Launches; the parameter struct at `params` is copied before the function returns. Errors: wrong_device
/// (the stream belongs to another context), driver.
Result<void> launch_kernel(const DriverApi& api, CUfunction function, const LaunchShape& shape,
                           const void* params, Stream stream);

}  // namespace sluice
