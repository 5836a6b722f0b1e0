// SPDX-License-Identifier: Apache-2.0
#include <sluice/tools.h>

#include <sluice/host/device/device_impl.h>
#include <sluice/host/driver/ask_gpu.h>
#include <sluice/try.h>

namespace sluice::tools {

const KernelCache& kernel_cache(const Device& device) {
  return device.impl().cache;
}

Result<std::shared_ptr<const Module>> load_unit(const Device& device, const std::string& unit,
                                                int dynamic_smem_bytes) {
  return device.impl().load_unit(unit, dynamic_smem_bytes);
}

const DriverApi& driver_of(const Device& device) {
  return *device.impl().api;
}

const PrimaryContext& context_of(const Device& device) {
  return *device.impl().primary;
}

const Card& card_of(const Device& device) {
  return device.impl().card();
}

const FoundCalibration& calibration_of(const Device& device) {
  return device.impl().calibration();
}

std::string pci_bus_id(const Device& device) {
  return sluice::pci_bus_id(driver_of(device), context_of(device).device());
}

Result<void> launch(const Device& device, const Module& module, const LaunchShape& shape, const void* params,
                    Stream stream) {
  const ContextScope scope(context_of(device));
  SLUICE_TRY(scope.entered());
  return launch_kernel(driver_of(device), module.function(), shape, params, stream);
}

Result<void> copy_async(const Device& device, const DeviceBuffer& to, const void* from, Stream stream) {
  return copy_on_device(device, to.data(), from, to.bytes(), stream);
}

}  // namespace sluice::tools
