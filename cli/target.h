// SPDX-License-Identifier: Apache-2.0
// The machine that a verb uses: a GPU, or the host twin. --device selects it. "auto" selects the first GPU,
// or else the host, and prints which.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>

#include <sluice/gemm.h>

namespace sluice::cli {

struct Target {
  std::optional<Device> device;  // empty: run on the host twin
  std::string why_host;          // why "auto" chose the host; else empty
  RecordBook records;            // shipped and user's tuning records

  DeviceInfo absent{};  // the GPU to plan for if `device` is empty: an H200, or that of --gpu

  /// The GPU that plans are made for.
  DeviceInfo info() const { return device ? device->info() : absent; }
};

inline constexpr const char* kAskDoctor = "`sluice doctor` says what is missing";

/// True if a CUDA driver can be loaded, even if there is no GPU.
bool has_driver();

/// Resolves --device: `name` is "auto", "host" or the number of a GPU. Errors: invalid_argument; for a
/// number, those of Device::open.
Result<Target> find_target(const std::string& name, const Options& options);

/// Returns a line that says that plans are for an H200, because no GPU was found or named; else "".
std::string stand_in_line(const Target& target);

/// Flags of verbs that plan without running: --device, or --gpu for a GPU that need not be present.
struct PlanTarget {
  std::string device = "auto";
  std::string gpu;  // one of gpu_names(); "": use `device`
};
void add_plan_target(CLI::App& verb, PlanTarget& target);
/// Errors: those of find_target; invalid_argument for an unknown GPU.
Result<Target> find_target(const PlanTarget& target, const Options& options);

}  // namespace sluice::cli
