// SPDX-License-Identifier: Apache-2.0
// Measures the rates of the GPU (DeviceRates) with small kernels: readers, an empty kernel, a pointer chase,
// and WGMMA with pauses. Takes about 8 s, of which the tensor cores are busy for 5. The GPU should be idle.
// Called by `sluice calibrate`.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <sluice/tools.h>

namespace sluice::bench {

/// A measured number from which the rates were computed.
struct Reading {
  std::string name;
  double value = 0;
  const char* unit = "";
};

struct CalibrationRun {
  DeviceRates rates;
  std::vector<Reading> readings;
};

/// Called with the name of each phase of the calibration.
using CalibrationPhase = std::function<void(const std::string& what)>;

/// Errors: toolchain, driver (memory: it takes 1 GB).
Result<CalibrationRun> calibrate(const Device& device, const CalibrationPhase& phase);

/// Measures memory and launches: hbm, l2, sm, latency, launch. Adds its readings.
Result<void> measure_memory(const Device& device, CalibrationRun& run);
/// Measures tensor cores: operations per clock, sustained rates, the clock by load. Adds its readings.
Result<void> measure_tensor(const Device& device, CalibrationRun& run);

/// The SM clock measured while tensor cores are busy for a share of the time.
struct ClockPoint {
  double share = 0, mhz = 0;
};
/// Fits a line to the points and sets light_mhz, light_share and heavy_share; `heavy_mhz` is the clock at its
/// end. If the clock hardly falls, the shares stay unchanged.
void fit_clock(std::span<const ClockPoint> points, double heavy_mhz, DeviceRates& rates);

/// The kernels' texts, which tests compile.
std::vector<std::string> memory_unit_texts();
std::vector<std::string> tensor_unit_texts();
std::vector<std::string> calibration_unit_texts();

}  // namespace sluice::bench
