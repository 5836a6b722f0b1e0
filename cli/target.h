// SPDX-License-Identifier: Apache-2.0
// The machine of a verb: a GPU, or the host twin. --device selects it; "auto" takes the first GPU, else the
// host, and says so.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>

#include <sluice/gemm.h>

namespace sluice::cli {

struct Target {
  std::optional<Device> device;  // none: the host twin
  std::string why_host;          // reason for the host under "auto"; else empty
  RecordBook records;            // shipped and the user's

  DeviceInfo absent{};  // the GPU to plan for without `device`: an H200, or that of --gpu

  /// The GPU that plans are made for.
  DeviceInfo info() const { return device ? device->info() : absent; }
};

inline constexpr const char* kAskDoctor = "`sluice doctor` says what is missing";

/// Whether the CUDA driver is there, whatever GPUs it has.
bool has_driver();

/// `name`: "auto", "host" or a GPU's number. Errors: invalid_argument; for a number those of Device::open.
Result<Target> find_target(const std::string& name, const Options& options);

/// The line that says that plans are for an H200, as no GPU was found or named; else "".
std::string stand_in_line(const Target& target);

/// Flags of verbs that only plan: --device, or --gpu for a GPU that need not be present.
struct PlanTarget {
  std::string device = "auto";
  std::string gpu;  // one of gpu_names(); "": use `device`
};
void add_plan_target(CLI::App& verb, PlanTarget& target);
/// Errors: those of find_target; invalid_argument for an unknown GPU.
Result<Target> find_target(const PlanTarget& target, const Options& options);

}  // namespace sluice::cli
