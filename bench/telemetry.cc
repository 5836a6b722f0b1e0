// SPDX-License-Identifier: Apache-2.0
// NVML's own header is not needed: the few entry points below have had these signatures since NVML 2.
#include "bench/telemetry.h"

#include <dlfcn.h>

#include <algorithm>

#include "bench/statistics.h"

namespace sluice::bench {
namespace {

using NvmlDevice = void*;
constexpr int kNvmlSuccess = 0;
constexpr int kNvmlClockSm = 1;
constexpr int kNvmlTemperatureGpu = 0;

}  // namespace

struct Telemetry::Impl {
  void* library = nullptr;
  NvmlDevice device = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*by_index)(unsigned, NvmlDevice*) = nullptr;
  int (*clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*max_clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*power)(NvmlDevice, unsigned*) = nullptr;
  int (*power_limit)(NvmlDevice, unsigned*) = nullptr;
  int (*temperature)(NvmlDevice, int, unsigned*) = nullptr;
  int (*driver)(char*, unsigned) = nullptr;
  bool started = false;

  ~Impl() {
    if (started && shutdown != nullptr) shutdown();
    if (library != nullptr) dlclose(library);
  }

  template <class F>
  void look_up(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library, name));
  }
  bool open_device(int ordinal) {
    library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return false;
    look_up(init, "nvmlInit_v2");
    look_up(shutdown, "nvmlShutdown");
    look_up(by_index, "nvmlDeviceGetHandleByIndex_v2");
    look_up(clock, "nvmlDeviceGetClockInfo");
    look_up(max_clock, "nvmlDeviceGetMaxClockInfo");
    look_up(power, "nvmlDeviceGetPowerUsage");
    look_up(power_limit, "nvmlDeviceGetEnforcedPowerLimit");
    look_up(temperature, "nvmlDeviceGetTemperature");
    look_up(driver, "nvmlSystemGetDriverVersion");
    if (init == nullptr || init() != kNvmlSuccess) return false;
    started = true;
    return by_index != nullptr && by_index(static_cast<unsigned>(ordinal), &device) == kNvmlSuccess;
  }
};

TelemetrySummary summarise(const std::vector<Sample>& samples) {
  TelemetrySummary summary{.samples = static_cast<int>(samples.size())};
  if (samples.empty()) return summary;
  std::vector<double> clocks;
  for (const Sample& sample : samples) {
    clocks.push_back(sample.sm_mhz);
    summary.power_w_mean += sample.power_w / static_cast<double>(samples.size());
    summary.power_w_max = std::max(summary.power_w_max, sample.power_w);
    summary.celsius_max = std::max(summary.celsius_max, sample.celsius);
  }
  summary.sm_mhz_median = quantile(clocks, 0.5);
  summary.sm_mhz_min = least(clocks);
  return summary;
}

Telemetry Telemetry::open(int ordinal) {
  Telemetry telemetry;
  auto impl = std::make_shared<Impl>();
  if (impl->open_device(ordinal)) telemetry.impl_ = std::move(impl);
  return telemetry;
}

bool Telemetry::blind() const {
  return impl_ == nullptr;
}

bool Telemetry::sample(Sample& into) const {
  if (blind()) return false;
  unsigned value = 0;
  into = {};
  if (impl_->clock != nullptr && impl_->clock(impl_->device, kNvmlClockSm, &value) == kNvmlSuccess)
    into.sm_mhz = value;
  if (impl_->power != nullptr && impl_->power(impl_->device, &value) == kNvmlSuccess)
    into.power_w = value / 1000.0;
  if (impl_->temperature != nullptr &&
      impl_->temperature(impl_->device, kNvmlTemperatureGpu, &value) == kNvmlSuccess)
    into.celsius = value;
  return into.sm_mhz > 0 || into.power_w > 0;
}

std::string Telemetry::driver_version() const {
  char text[96] = {};
  if (blind() || impl_->driver == nullptr || impl_->driver(text, sizeof text) != kNvmlSuccess) return "";
  return text;
}

double Telemetry::power_limit_w() const {
  unsigned value = 0;
  if (blind() || impl_->power_limit == nullptr || impl_->power_limit(impl_->device, &value) != kNvmlSuccess)
    return 0;
  return value / 1000.0;
}

double Telemetry::max_sm_mhz() const {
  unsigned value = 0;
  if (blind() || impl_->max_clock == nullptr ||
      impl_->max_clock(impl_->device, kNvmlClockSm, &value) != kNvmlSuccess)
    return 0;
  return value;
}

}  // namespace sluice::bench
