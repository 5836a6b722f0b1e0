// SPDX-License-Identifier: Apache-2.0
// Clocks, power and temperature from NVML, which is loaded at run time. Without NVML (containers, sandboxes)
// samples are empty and the bench continues.
#pragma once

#include <string>
#include <vector>

#include <sluice/bench/record.h>
#include <sluice/run/driver/nvml.h>

namespace sluice::bench {

struct Sample {
  double sm_mhz = 0;
  double power_w = 0;
  double celsius = 0;
};

TelemetrySummary summarise(const std::vector<Sample>& samples);

class Telemetry {
 public:
  /// Opens the GPU at this PCI bus address in NVML (driver/ask_gpu.h). Never fails: without NVML, sample()
  /// returns false.
  static Telemetry open(const std::string& bus_id);

  bool blind() const { return !gpu_; }
  /// Reads clocks and power once, in about 0.1 ms. Returns false if NVML cannot be read.
  bool sample(Sample& into) const;
  std::string driver_version() const;                            // "" if unknown
  double power_limit_w() const { return gpu_.power_limit_w(); }  // 0 if unknown
  double max_sm_mhz() const;                                     // 0 if unknown

 private:
  NvmlGpu gpu_;
};

}  // namespace sluice::bench
