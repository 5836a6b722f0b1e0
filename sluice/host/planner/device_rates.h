// SPDX-License-Identifier: Apache-2.0
// How a GPU compares with the H200 that the cost models were fitted on. All are 1 for it. Used by the models,
// for constants that follow from a GPU's clock, tensor cores or memory. docs/hardware.md lists the rest.
#pragma once

#include <algorithm>

#include <sluice/device_info.h>
#include <sluice/spec/dtype.h>

namespace sluice {

inline constexpr DeviceRates kFittedRates{};

/// SM clocks for each clock of an H200, in kernels that power does not hold back.
inline double clock_share(const DeviceInfo& device) {
  return device.rates.light_mhz / kFittedRates.light_mhz;
}

inline double flops_per_clock(const DeviceRates& rates, DType inputs) {
  return is_fp8(inputs) ? rates.fp8_flops_per_clock : rates.fp16_flops_per_clock;
}

/// Clocks that a tensor core takes for each one of a full Hopper SM: 4 on an H20.
inline double tensor_slowness(const DeviceInfo& device, DType inputs) {
  return flops_per_clock(kFittedRates, inputs) / flops_per_clock(device.rates, inputs);
}

/// Clocks of an SM in a microsecond whose tensor cores are busy for `share` of the time: power holds it back.
inline double clocks_per_us(const DeviceInfo& device, DType inputs, double share) {
  const DeviceRates& r = device.rates;
  const double rate = is_fp8(inputs) ? r.fp8_flops_per_us : r.fp16_flops_per_us;
  const double heavy = rate / device.sm_count / flops_per_clock(r, inputs);
  const double light = std::max(r.light_mhz, heavy);
  const double weight = std::clamp((share - r.light_share) / (r.heavy_share - r.light_share), 0.0, 1.0);
  return light - (light - heavy) * weight;
}

/// Bytes from HBM, and from L2, for each byte of an H200 in the same time.
inline double hbm_share(const DeviceInfo& device) {
  return device.rates.hbm_bytes_per_us / kFittedRates.hbm_bytes_per_us;
}
inline double l2_share(const DeviceInfo& device) {
  return device.rates.l2_bytes_per_us / kFittedRates.l2_bytes_per_us;
}

}  // namespace sluice
