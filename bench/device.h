// SPDX-License-Identifier: Apache-2.0
// The inside of a Device, for kernels of the bench's own: its driver, its context, units compiled through its
// cache, and launches.
#pragma once

#include <memory>
#include <string>

#include <sluice/run/device/device_impl.h>
#include <sluice/run/driver/launch.h>
#include <sluice/run/driver/memory.h>
#include <sluice/try.h>

namespace sluice::bench {

inline const DriverApi& driver_of(const Device& device) {
  return *device.impl().api;
}
/// The primary context, for a ContextScope around calls of driver_of() and of other libraries.
inline const PrimaryContext& context_of(const Device& device) {
  return *device.impl().primary;
}
/// Errors: toolchain, driver.
inline Result<std::shared_ptr<const Module>> load_unit(const Device& device, const std::string& unit,
                                                       int dynamic_smem_bytes = 0) {
  return device.impl().load_unit(unit, dynamic_smem_bytes);
}
/// Launches `module`; `params` is copied. Errors: wrong_device, driver.
inline Result<void> launch_module(const Device& device, const Module& module, const LaunchShape& shape,
                                  const void* params, Stream stream) {
  const ContextScope scope(context_of(device));
  SLUICE_TRY(scope.entered());
  return launch_kernel(driver_of(device), module.function(), shape, params, stream);
}

/// Copies all of `to` from `from`, on the GPU and in stream order. Error driver.
inline Result<void> copy_async(const Device& device, const DeviceBuffer& to, const void* from,
                               Stream stream) {
  return copy_on_device(device, to.data(), from, to.bytes(), stream);
}

}  // namespace sluice::bench
