// SPDX-License-Identifier: Apache-2.0
// Clocks, power and temperature through NVML, loaded at run time. Everything is optional: where NVML is
// missing (containers, other vendors' sandboxes) samples are empty and the bench goes on.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace sluice::bench {

struct Sample {
  double sm_mhz = 0;
  double power_w = 0;
  double celsius = 0;
};

/// What a shape's samples come to; `samples` = 0: nothing is known.
struct TelemetrySummary {
  int samples = 0;
  double sm_mhz_median = 0, sm_mhz_min = 0;
  double power_w_mean = 0, power_w_max = 0;
  double celsius_max = 0;
};
TelemetrySummary summarise(const std::vector<Sample>& samples);

class Telemetry {
 public:
  /// `ordinal` counts as NVML does: all GPUs, whatever CUDA_VISIBLE_DEVICES hides. Never fails; may be blind.
  static Telemetry open(int ordinal);

  bool blind() const;
  /// One reading, taken while the GPU works; about 0.1 ms. False if blind.
  bool sample(Sample& into) const;
  std::string driver_version() const;  // "" if unknown
  double power_limit_w() const;        // 0 if unknown
  double max_sm_mhz() const;           // 0 if unknown

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace sluice::bench
