// SPDX-License-Identifier: Apache-2.0
// "auto" falls back to the host only if the machine has no usable GPU; other errors are returned.
#include "cli/target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sluice/bench/parse.h>
#include <sluice/machine.h>
#include <sluice/text.h>
#include <sluice/try.h>

namespace sluice::cli {

bool has_driver() {
  return cuda_driver().ok();
}

Result<Target> find_target(const std::string& name, const Options& options) {
  if (name == "host") return Target{.records = open_records(options)};
  const bool any = name == "auto";
  const Result<std::vector<i64>> number = bench::parse_sizes(any ? "0" : name, 1, "device", "0");
  if (!number || (*number)[0] > 1024)
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--device {} must be auto, host or the number of a GPU", in_quotes(name))};
  Result<Device> device = Device::open(static_cast<int>((*number)[0]), options);
  if (device) return Target{.device = *device, .records = device->records()};
  const ErrorCode code = device.error().code;
  if (any && (code == ErrorCode::driver || code == ErrorCode::unsupported_arch))
    return Target{.why_host = device.error().message, .records = open_records(options)};
  if (has_driver()) return device.error();
  return Error{code, fmt::format("there is no CUDA driver, and so no GPU {}: say --device host, or leave "
                                 "--device out; {}",
                                 name, kAskDoctor)};
}

std::string stand_in_line(const Target& target) {
  return target.why_host.empty() ? "" : describe_stand_in(target.absent);
}

void add_plan_target(CLI::App& verb, PlanTarget& target) {
  CLI::Option* const device =
      verb.add_option(
              "--device", target.device,
              "Plan for: auto (the GPU that is here, else as host), host (an H200), or the number of a GPU")
          ->capture_default_str();
  verb.add_option("--gpu", target.gpu,
                  fmt::format("Plan for a GPU that need not be here: {}", fmt::join(gpu_names(), ", ")))
      ->excludes(device);
}

Result<Target> find_target(const PlanTarget& target, const Options& options) {
  if (target.gpu.empty()) return find_target(target.device, options);
  SLUICE_TAKE(DeviceInfo named, gpu_named(target.gpu));
  return Target{.records = open_records(options), .absent = std::move(named)};
}

}  // namespace sluice::cli
