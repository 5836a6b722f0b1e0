// SPDX-License-Identifier: Apache-2.0
// Where a verb works: a GPU, or the host twin where there is none. --device says which; "auto" takes the
// first GPU and falls back to the host with a word about why (a choice that is printed, never silent).
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>

#include <sluice/gemm.h>

namespace sluice::cli {

struct Target {
  std::optional<Device> device;  // none: the host twin
  std::string why_host;          // for "auto" without a GPU
  RecordBook records;            // the shipped ones and the user's

  DeviceInfo absent{};  // the GPU to plan for where `device` is none: an H200, unless --gpu names one

  /// What plans are made for.
  DeviceInfo info() const { return device ? device->info() : absent; }
};

/// `name`: "auto", "host" or the number of a GPU. Errors: invalid_argument, and Device::open's for a number.
Result<Target> find_target(const std::string& name, const Options& options);

/// The flags of verbs that only plan: --device, or --gpu for one that need not be here.
struct PlanTarget {
  std::string device = "auto";
  std::string gpu;  // one of gpu_names(); "": as `device` says
};
void add_plan_target(CLI::App& verb, PlanTarget& target);
/// Errors: find_target's, and invalid_argument for a GPU that is not known.
Result<Target> find_target(const PlanTarget& target, const Options& options);

}  // namespace sluice::cli
