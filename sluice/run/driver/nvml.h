// SPDX-License-Identifier: Apache-2.0
// NVML as a table of functions, found in libnvidia-ml.so.1 at run time, for power limits and the clocks of
// the bench. All of it is optional: containers may lack it, and a GPU may not answer. Its header is not
// needed, because these signatures have not changed since NVML 2. Tests pass a fake.
#pragma once

#include <string>

namespace sluice {

using NvmlDevice = void*;
inline constexpr int kNvmlSuccess = 0;
inline constexpr int kNvmlClockSm = 1;
inline constexpr int kNvmlTemperatureGpu = 0;

/// Entries that the installed NVML lacks are null.
struct NvmlApi {
  int (*init)() = nullptr;
  int (*by_bus_id)(const char*, NvmlDevice*) = nullptr;
  int (*clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*max_clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*power)(NvmlDevice, unsigned*) = nullptr;        // milliwatts
  int (*power_limit)(NvmlDevice, unsigned*) = nullptr;  // the enforced limit, milliwatts
  int (*temperature)(NvmlDevice, int, unsigned*) = nullptr;
  int (*driver)(char*, unsigned) = nullptr;
};

/// Opens and initialises NVML once per process and keeps it open. Null if that fails.
const NvmlApi* load_nvml();

/// Returns the driver's version, "580.159.04"; "" if NVML does not report it.
std::string nvml_driver_version();

/// Makes load_nvml() return `fake`, or the real one again if `fake` is null.
void replace_nvml_for_test(const NvmlApi* fake);

/// A GPU in NVML. An empty object answers 0 to every query.
struct NvmlGpu {
  const NvmlApi* api = nullptr;
  NvmlDevice device = nullptr;

  /// Finds a GPU by the PCI bus address that cuDeviceGetPCIBusId returns: NVML and CUDA number GPUs
  /// differently.
  static NvmlGpu find(const char* bus_id);
  explicit operator bool() const { return api != nullptr; }
  double power_limit_w() const;
};

}  // namespace sluice
