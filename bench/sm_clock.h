// SPDX-License-Identifier: Apache-2.0
// Measures the SM clock while something runs. Small kernels before and after it record each SM's cycle count
// and the GPU's time. NVML cannot be used: it reports 1980 MHz on an H200 that multiplies at 1500
// (docs/findings/power.md). Used by measure.cc.
#pragma once

#include <memory>
#include <span>

#include <sluice/run/driver/memory.h>
#include <sluice/run/driver/module.h>

namespace sluice::bench {

/// Cycle count of one SM and the GPU's global time in nanoseconds, read together.
struct ClockNote {
  u64 cycles = 0, nanoseconds = 0;
};
/// Returns the mean SM clock in MHz between two edges, over the SMs that recorded both; 0 if none did. The
/// spans have one entry per SM.
double mean_mhz(std::span<const ClockNote> begin, std::span<const ClockNote> end);

class SmClock {
 public:
  /// Errors: toolchain, driver.
  static Result<SmClock> create(const Device& device);
  static const char* unit_text();

  enum class Edge { begin, end };
  /// Enqueues a kernel that records each SM's clock; does not wait.
  Result<void> note(Edge edge, Stream stream) const;
  /// Returns mean_mhz() between the last `begin` and the last `end`. The stream must have completed both.
  /// Error: driver.
  Result<double> mhz() const;

 private:
  SmClock(const Device& device, std::shared_ptr<const Module> module, DeviceBuffer notes)
      : device_(device), module_(std::move(module)), notes_(std::move(notes)) {}
  Device device_;
  std::shared_ptr<const Module> module_;
  DeviceBuffer notes_;
};

}  // namespace sluice::bench
