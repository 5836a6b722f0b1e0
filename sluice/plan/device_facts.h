// SPDX-License-Identifier: Apache-2.0
// Derives the planner's DeviceInfo from facts of a driver or a data sheet. Pure. Called by Device
// (run/device/device.cc), and for GPUs that are not in the machine.
#pragma once

#include <sluice/device_info.h>

namespace sluice {

/// The facts of a GPU; 0 means unknown.
struct GpuFacts {
  std::string name{};
  int compute_major = 9, compute_minor = 0;
  int sm_count = 0;
  i64 l2_bytes = 0;
  double max_sm_mhz = 0;
  double memory_mhz = 0;  // data are transferred on both clock edges
  int bus_bits = 0;
  double power_limit_w = 0;
  // How many are resident at once, with one CTA per SM.
  int clusters_of_2 = 0, clusters_of_4 = 0, clusters_of_8 = 0;
};

/// Returns the planner's view of the GPU. Facts that are given count as reported by the driver.
DeviceInfo device_info_of(const GpuFacts& facts);

}  // namespace sluice
