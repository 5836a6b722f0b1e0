// SPDX-License-Identifier: Apache-2.0
// From what a driver says of a GPU, or a data sheet, to what the planner takes for it. Pure. Called by
// Device (host/device/device.cc) and for GPUs that are not here.
#pragma once

#include <sluice/device_info.h>

namespace sluice {

/// 0 where there is no answer.
struct GpuFacts {
  std::string name{};
  int compute_major = 9, compute_minor = 0;
  int sm_count = 0;
  i64 l2_bytes = 0;
  double max_sm_mhz = 0;
  double memory_mhz = 0;  // data move at both edges of it
  int bus_bits = 0;
  double power_limit_w = 0;
  int clusters_of_2 = 0, clusters_of_4 = 0, clusters_of_8 = 0;  // resident at once, one CTA an SM
};

/// Facts that are given are marked as the driver's.
DeviceInfo device_info_of(const GpuFacts& facts);

}  // namespace sluice
