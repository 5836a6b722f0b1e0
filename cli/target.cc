// SPDX-License-Identifier: Apache-2.0
// "auto" only forgives a machine without a usable GPU; every other error is one.
#include "cli/target.h"

#include <fmt/format.h>

#include "cli/parse.h"

namespace sluice::cli {

Result<Target> find_target(const std::string& name, const Options& options) {
  if (name == "host") return Target{.records = open_records(options)};
  const bool any = name == "auto";
  const Result<std::vector<i64>> number = parse_sizes(any ? "0" : name, 1, "device", "0");
  if (!number || (*number)[0] > 1024)
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--device \"{}\" must be auto, host or the number of a GPU", name)};
  Result<Device> device = Device::open(static_cast<int>((*number)[0]), options);
  if (device) return Target{.device = *device, .records = device->records()};
  const ErrorCode code = device.error().code;
  if (any && (code == ErrorCode::driver || code == ErrorCode::unsupported_arch))
    return Target{.why_host = device.error().message, .records = open_records(options)};
  return device.error();
}

}  // namespace sluice::cli
