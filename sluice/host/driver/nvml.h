// SPDX-License-Identifier: Apache-2.0
// NVML as a table of functions, found in libnvidia-ml.so.1 at run time. All of it is optional: containers may
// lack it, and a GPU may not answer. Used for a GPU's power limit, and by the bench for clocks. Its header is
// not needed: these entry points have had these signatures since NVML 2. Tests put a fake in its place.
#pragma once

namespace sluice {

using NvmlDevice = void*;
inline constexpr int kNvmlSuccess = 0;
inline constexpr int kNvmlClockSm = 1;
inline constexpr int kNvmlTemperatureGpu = 0;

/// An entry that this NVML lacks is null.
struct NvmlApi {
  int (*init)() = nullptr;
  int (*by_bus_id)(const char*, NvmlDevice*) = nullptr;
  int (*clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*max_clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*power)(NvmlDevice, unsigned*) = nullptr;        // milliwatts
  int (*power_limit)(NvmlDevice, unsigned*) = nullptr;  // the one in force, milliwatts
  int (*temperature)(NvmlDevice, int, unsigned*) = nullptr;
  int (*driver)(char*, unsigned) = nullptr;
};

/// Opens and initialises NVML once per process, and keeps it. nullptr: there is none that works.
const NvmlApi* load_nvml();

/// load_nvml() gives `fake` from now on; nullptr: the real one again.
void replace_nvml_for_test(const NvmlApi* fake);

/// A GPU as NVML knows it; without one every answer is 0.
struct NvmlGpu {
  const NvmlApi* api = nullptr;
  NvmlDevice device = nullptr;

  /// By its address on the PCI bus, as cuDeviceGetPCIBusId gives it: NVML numbers GPUs otherwise than CUDA.
  static NvmlGpu find(const char* bus_id);
  explicit operator bool() const { return api != nullptr; }
  double power_limit_w() const;
};

}  // namespace sluice
