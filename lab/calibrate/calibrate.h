// SPDX-License-Identifier: Apache-2.0
// Measures the rates of the GPU (DeviceRates) with small kernels: readers, an empty kernel, a pointer chase,
// and WGMMA with pauses. Takes about 8 s, of which the tensor cores are busy for 5. The GPU should be idle.
// Called by `sluice_lab calibrate`.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <sluice/gemm.h>

namespace sluice::lab {

/// One measured value. The calibrated rates are computed from these.
struct Reading {
  std::string name;
  double value = 0;
  const char* unit = "";
};

struct CalibrationRun {
  DeviceRates rates;
  std::vector<Reading> readings;
};

/// Receives the name of each phase of the calibration as it begins.
using CalibrationPhase = std::function<void(const std::string& what)>;

/// Measures the GPU's rates. Allocates 1 GB of device memory. Errors: toolchain (NVRTC), driver (also out of
/// memory).
Result<CalibrationRun> calibrate(const Device& device, const CalibrationPhase& phase);

/// Measures HBM and L2 bandwidth, read bandwidth per SM, memory latency and launch overhead, and stores them
/// in `run`.
Result<void> measure_memory(const Device& device, CalibrationRun& run);
/// Measures the tensor cores' operations per clock, sustained rates, and SM clock as a function of load.
/// Stores them in `run`.
Result<void> measure_tensor(const Device& device, CalibrationRun& run);

/// The SM clock measured while the tensor cores are busy for `share` of the time.
struct ClockPoint {
  double share = 0, mhz = 0;
};
/// Fits a line to the points and sets light_mhz, light_share and heavy_share. `heavy_mhz` is the clock at
/// full load, the line's end. If the clock hardly falls with load, the shares stay unchanged.
void fit_clock(std::span<const ClockPoint> points, double heavy_mhz, DeviceRates& rates);

/// Source texts of the calibration kernels, so that tests can compile them.
std::vector<std::string> memory_unit_texts();
std::vector<std::string> tensor_unit_texts();
std::vector<std::string> calibration_unit_texts();

}  // namespace sluice::lab
