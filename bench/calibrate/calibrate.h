// SPDX-License-Identifier: Apache-2.0
// Measures the rates of the card at hand (DeviceRates) with kernels of a few lines: readers, an empty kernel,
// a chase of pointers, and WGMMA with pauses. Takes 8 s or so, of which the tensor cores are busy for 5. The
// GPU should be idle. Called by `sluice calibrate`.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <sluice/tools.h>

namespace sluice::bench {

/// A number that was measured beside the rates: what they were made of.
struct Reading {
  std::string name;
  double value = 0;
  const char* unit = "";
};

struct CalibrationRun {
  DeviceRates rates;
  std::vector<Reading> readings;
};

/// Receives the name of each part.
using CalibrationPhase = std::function<void(const std::string& what)>;

/// Errors: toolchain, driver (memory: it takes 1 GB).
Result<CalibrationRun> calibrate(const Device& device, const CalibrationPhase& phase);

/// Memory and launches: hbm, l2, sm, latency, launch. Adds its readings.
Result<void> measure_memory(const Device& device, CalibrationRun& run);
/// Tensor cores: operations a clock, sustained rates, the curve of the clock. Adds its readings.
Result<void> measure_tensor(const Device& device, CalibrationRun& run);

/// The clock where tensor cores are busy for a share of the time.
struct ClockPoint {
  double share = 0, mhz = 0;
};
/// Sets light_mhz, light_share and heavy_share to the line that lies nearest the points; `heavy_mhz` is the
/// clock behind it. Where the clock hardly falls, the shares stay as they are.
void fit_clock(std::span<const ClockPoint> points, double heavy_mhz, DeviceRates& rates);

/// The kernels' texts, which tests compile.
std::vector<std::string> memory_unit_texts();
std::vector<std::string> tensor_unit_texts();
std::vector<std::string> calibration_unit_texts();

}  // namespace sluice::bench
