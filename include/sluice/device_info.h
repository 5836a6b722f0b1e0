// SPDX-License-Identifier: Apache-2.0
// Facts about a GPU that the planner uses, each with its source. Device::info() describes a GPU of this
// machine, gpu_named() any other. docs/hardware.md has sources and measurements.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sluice/result.h>
#include <sluice/spec/base.h>

namespace sluice {

enum class FactSource {
  measured,    // measured on this model of GPU, at its usual power limit
  driver,      // reported by the CUDA driver or NVML for this GPU
  estimated,   // computed from those reports
  assumed,     // taken from a data sheet, or from an H200
  calibrated,  // measured on this very card: `sluice_lab calibrate`
};

/// One source per group of facts in DeviceInfo.
struct FactSources {
  FactSource clusters = FactSource::measured;
  FactSource l2_bytes = FactSource::measured;
  FactSource clock = FactSource::measured;
  FactSource power_limit = FactSource::measured;
  FactSource hbm_rate = FactSource::measured;
  FactSource l2_rate = FactSource::measured;
  FactSource tensor_rate = FactSource::measured;
  FactSource sm_rates = FactSource::measured;  // load rate of an SM, latency, launch time

  bool operator==(const FactSources&) const = default;
};

/// The rates that cost models need; all other constants of the models hold for every Hopper GPU. `sluice
/// calibrate` measures these rates (docs/hardware.md). The defaults are those of an H200 of 700 W.
struct DeviceRates {
  double hbm_bytes_per_us = 4.5e6;  // all SMs read data that is not in L2
  double l2_bytes_per_us = 9.6e6;   // all SMs read data that is in L2, by plain loads
  double sm_bytes_per_us = 65e3;    // one SM reads from HBM while at most half of the others do
  double latency_us = 0.34;         // from issuing a load to its data arriving from HBM, on an idle GPU
  double launch_us = 0.57;          // time that an empty kernel adds behind another kernel
  // Dense products of one SM, counted as two operations each (NVIDIA H100 white paper).
  double fp16_flops_per_clock = 4096;
  double fp8_flops_per_clock = 8192;
  // WGMMA without loads, random data, settled clocks, all SMs; bf16 is as fast as fp16.
  double fp16_flops_per_us = 845e6;
  double fp8_flops_per_us = 1685e6;
  // The clock depends on the share of time in which WGMMA is busy. At light_share it is light_mhz, at
  // heavy_share the clock of the rates above, and linear in between.
  double light_mhz = 1800;
  double light_share = 0.54;
  double heavy_share = 0.96;

  bool operator==(const DeviceRates&) const = default;
};

/// The defaults describe an H200 of 700 W.
struct DeviceInfo {
  std::string name = "NVIDIA H200";
  int sm_count = 132;
  int compute_major = 9, compute_minor = 0;
  int max_clusters_of_2 = 66;  // resident at the same time, with one CTA per SM
  int max_clusters_of_4 = 30;  // not 33: docs/findings/clusters-of-four.md
  int max_clusters_of_8 = 15;
  i64 l2_bytes = 60 << 20;
  double max_sm_mhz = 1980;
  double power_limit_w = 700;              // 0: unknown
  double hbm_peak_bytes_per_us = 4.814e6;  // memory clock x bus width, both edges; 0: unknown
  DeviceRates rates{};
  FactSources sources{};

  bool operator==(const DeviceInfo&) const = default;
};

/// The facts of a GPU that need not be in this machine. `name`: one of gpu_names(), in any case. Error:
/// invalid_argument.
Result<DeviceInfo> gpu_named(std::string_view name);
/// "h200", "h100", "h100-nvl", "h100-pcie", "gh200", "h20"
std::vector<std::string> gpu_names();

const char* name_of(FactSource source);
/// The facts as aligned lines of text, each with its source.
std::string describe(const DeviceInfo& device);
/// One line that says that a plan is for `device` because no GPU was found or named.
std::string describe_stand_in(const DeviceInfo& device);

}  // namespace sluice
