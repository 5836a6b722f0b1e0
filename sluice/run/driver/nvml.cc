// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/driver/nvml.h>

#include <dlfcn.h>

#include <array>
#include <atomic>

namespace sluice {
namespace {

std::atomic<const NvmlApi*> replacement{nullptr};

template <class Function>
void look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

bool start(NvmlApi& api) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);  // never closed, like libcuda
  if (library == nullptr) return false;
  look_up(library, "nvmlInit_v2", api.init);
  look_up(library, "nvmlDeviceGetHandleByPciBusId_v2", api.by_bus_id);
  look_up(library, "nvmlDeviceGetClockInfo", api.clock);
  look_up(library, "nvmlDeviceGetMaxClockInfo", api.max_clock);
  look_up(library, "nvmlDeviceGetPowerUsage", api.power);
  look_up(library, "nvmlDeviceGetEnforcedPowerLimit", api.power_limit);
  look_up(library, "nvmlDeviceGetTemperature", api.temperature);
  look_up(library, "nvmlSystemGetDriverVersion", api.driver);
  return api.init != nullptr && api.init() == kNvmlSuccess;
}

}  // namespace

const NvmlApi* load_nvml() {
  if (const NvmlApi* fake = replacement.load(std::memory_order_acquire)) return fake;
  static NvmlApi api;
  static const bool started = start(api);
  return started ? &api : nullptr;
}

std::string nvml_driver_version() {
  const NvmlApi* api = load_nvml();
  std::array<char, 96> text{};
  if (api == nullptr || api->driver == nullptr ||
      api->driver(text.data(), static_cast<unsigned>(text.size())) != kNvmlSuccess)
    return "";
  text.back() = 0;
  return text.data();
}

void replace_nvml_for_test(const NvmlApi* fake) {
  replacement.store(fake, std::memory_order_release);
}

NvmlGpu NvmlGpu::find(const char* bus_id) {
  NvmlGpu gpu{.api = load_nvml()};
  const bool found = gpu.api != nullptr && gpu.api->by_bus_id != nullptr &&
                     gpu.api->by_bus_id(bus_id, &gpu.device) == kNvmlSuccess;
  return found ? gpu : NvmlGpu{};
}

double NvmlGpu::power_limit_w() const {
  unsigned milliwatts = 0;
  if (api == nullptr || api->power_limit == nullptr || api->power_limit(device, &milliwatts) != kNvmlSuccess)
    return 0;
  return milliwatts / 1000.0;
}

}  // namespace sluice
