// SPDX-License-Identifier: Apache-2.0
#include "bench/telemetry.h"

#include <algorithm>

#include <sluice/quantiles.h>

namespace sluice::bench {

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

Telemetry Telemetry::open(const std::string& bus_id) {
  Telemetry telemetry;
  telemetry.gpu_ = NvmlGpu::find(bus_id.c_str());
  return telemetry;
}

bool Telemetry::sample(Sample& into) const {
  if (blind()) return false;
  const NvmlApi& api = *gpu_.api;
  unsigned value = 0;
  into = {};
  if (api.clock != nullptr && api.clock(gpu_.device, kNvmlClockSm, &value) == kNvmlSuccess)
    into.sm_mhz = value;
  if (api.power != nullptr && api.power(gpu_.device, &value) == kNvmlSuccess) into.power_w = value / 1000.0;
  if (api.temperature != nullptr && api.temperature(gpu_.device, kNvmlTemperatureGpu, &value) == kNvmlSuccess)
    into.celsius = value;
  return into.sm_mhz > 0 || into.power_w > 0;
}

std::string Telemetry::driver_version() const {
  char text[96] = {};
  if (blind() || gpu_.api->driver == nullptr || gpu_.api->driver(text, sizeof text) != kNvmlSuccess)
    return "";
  return text;
}

double Telemetry::max_sm_mhz() const {
  unsigned value = 0;
  if (blind() || gpu_.api->max_clock == nullptr ||
      gpu_.api->max_clock(gpu_.device, kNvmlClockSm, &value) != kNvmlSuccess)
    return 0;
  return value;
}

}  // namespace sluice::bench
