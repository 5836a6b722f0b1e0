// SPDX-License-Identifier: Apache-2.0
// Ratios of a GPU to the H200 on which the cost models were fitted; all are 1 for that H200. The models scale
// constants with them that depend on clock, tensor cores or memory. docs/hardware.md lists the rates.
#pragma once

#include <algorithm>

#include <sluice/device_info.h>
#include <sluice/spec/dtype.h>

namespace sluice {

inline constexpr DeviceRates kFittedRates{};

/// This GPU's SM clock divided by an H200's, for kernels that stay below the power limit.
inline double clock_share(const DeviceInfo& device) {
  return device.rates.light_mhz / kFittedRates.light_mhz;
}

inline double flops_per_clock(const DeviceRates& rates, DType inputs) {
  return is_fp8(inputs) ? rates.fp8_flops_per_clock : rates.fp16_flops_per_clock;
}

/// Clocks of this GPU's tensor core for the work of one clock of a full Hopper SM: 4 on an H20.
inline double tensor_slowness(const DeviceInfo& device, DType inputs) {
  return flops_per_clock(kFittedRates, inputs) / flops_per_clock(device.rates, inputs);
}

/// SM clocks per microsecond while the tensor cores are busy for `share` of the time. Above a certain share
/// the power limit lowers the clock.
inline double clocks_per_us(const DeviceInfo& device, DType inputs, double share) {
  const DeviceRates& r = device.rates;
  const double rate = is_fp8(inputs) ? r.fp8_flops_per_us : r.fp16_flops_per_us;
  const double heavy = rate / device.sm_count / flops_per_clock(r, inputs);
  const double light = std::max(r.light_mhz, heavy);
  const double weight = std::clamp((share - r.light_share) / (r.heavy_share - r.light_share), 0.0, 1.0);
  return light - (light - heavy) * weight;
}

/// The energy of a launch, in microjoules. That of SMs and L2 grows with the square of the clock, as their
/// voltage does with it; that of HBM does not.
struct Energy {
  double at_reference = 0;  // SMs and L2, at kReferenceMhz
  double hbm = 0;
};
inline constexpr double kReferenceMhz = 1600;
inline constexpr double kIdleWatts = 100;        // taken from the power limit before a launch begins
inline constexpr double kUsualLimitWatts = 700;  // assumed where the driver says nothing

/// SM clocks per microsecond of a launch that takes so many clocks: the highest clock at which its energy
/// stays below the power limit, at most light_mhz.
inline double clocks_per_us_of(const DeviceInfo& device, const Energy& energy, double clocks) {
  const double limit = device.power_limit_w > 0 ? device.power_limit_w : kUsualLimitWatts;
  const double budget = std::max(limit - kIdleWatts, kIdleWatts) * clocks;
  const double square = energy.at_reference / (kReferenceMhz * kReferenceMhz);
  // Solves (square * mhz^2 + hbm) * mhz = budget. From above, Newton's steps never pass the solution.
  double mhz = device.rates.light_mhz;
  for (int step = 0; step < 4; ++step) {
    const double excess = (square * mhz * mhz + energy.hbm) * mhz - budget;
    if (excess <= 0) break;
    mhz -= excess / (3 * square * mhz * mhz + energy.hbm);
  }
  return mhz;
}

/// This GPU's HBM rate, and its L2 rate, divided by an H200's.
inline double hbm_share(const DeviceInfo& device) {
  return device.rates.hbm_bytes_per_us / kFittedRates.hbm_bytes_per_us;
}
inline double l2_share(const DeviceInfo& device) {
  return device.rates.l2_bytes_per_us / kFittedRates.l2_bytes_per_us;
}

}  // namespace sluice
