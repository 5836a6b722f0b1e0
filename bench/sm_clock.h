// SPDX-License-Identifier: Apache-2.0
// The clock that SMs really had while something ran: a small kernel before it and one behind it note, on each
// SM, its cycles and the GPU's time. NVML says 1980 MHz of an H200 that multiplies at 1500
// (docs/findings/power.md). Used by measure.cc.
#pragma once

#include <memory>
#include <span>

#include <sluice/tools.h>

namespace sluice::bench {

/// What one SM notes: its own cycles, the GPU's time.
struct ClockNote {
  u64 cycles = 0, nanoseconds = 0;
};
/// Of the SMs that noted both, one entry each; 0 if none did.
double mean_mhz(std::span<const ClockNote> begin, std::span<const ClockNote> end);

class SmClock {
 public:
  /// Errors: toolchain, driver.
  static Result<SmClock> create(const Device& device);
  static const char* unit_text();

  enum class Edge { begin, end };
  /// Notes all SMs' clocks, in stream order; does not wait.
  Result<void> note(Edge edge, Stream stream) const;
  /// Between the last `begin` and the last `end`, which the stream has passed: mean_mhz() of all SMs. Error
  /// driver.
  Result<double> mhz() const;

 private:
  SmClock(const Device& device, std::shared_ptr<const Module> module, DeviceBuffer notes)
      : device_(device), module_(std::move(module)), notes_(std::move(notes)) {}
  Device device_;
  std::shared_ptr<const Module> module_;
  DeviceBuffer notes_;
};

}  // namespace sluice::bench
