// SPDX-License-Identifier: Apache-2.0
// How a GPU compares with the H200 that the cost models were fitted on. All are 1 for it. Used by the models,
// for constants that follow from a GPU's clock, tensor cores or memory. docs/hardware.md lists the rest.
#pragma once

#include <sluice/device_info.h>
#include <sluice/host/planner/constants.h>
#include <sluice/spec/dtype.h>

namespace sluice {

/// SM clocks for each clock of an H200, in kernels that power does not hold back.
inline double clock_share(const DeviceInfo& device) {
  return device.max_sm_mhz / kPlanner.fitted_on.max_sm_mhz;
}

/// Clocks that a tensor core takes for each one of a full Hopper SM: 4 on an H20.
inline double tensor_slowness(const DeviceInfo& device, DType inputs) {
  const FittedOn& full = kPlanner.fitted_on;
  return is_fp8(inputs) ? full.fp8_flops_per_clock / device.fp8_flops_per_clock
                        : full.fp16_flops_per_clock / device.fp16_flops_per_clock;
}

/// Bytes from HBM, and from L2, for each byte of an H200 in the same time.
inline double hbm_share(const DeviceInfo& device) {
  return device.hbm_bytes_per_us / kPlanner.fitted_on.hbm_bytes_per_us;
}
inline double l2_share(const DeviceInfo& device) {
  return device.l2_bytes_per_us / kPlanner.fitted_on.l2_bytes_per_us;
}

}  // namespace sluice
