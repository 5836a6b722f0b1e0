// SPDX-License-Identifier: Apache-2.0
// Where a verb works: a GPU, or the host twin where there is none. --device says which; "auto" takes the
// first GPU and falls back to the host with a word about why (a choice that is printed, never silent).
#pragma once

#include <optional>
#include <string>

#include <sluice/gemm.h>

namespace sluice::cli {

struct Target {
  std::optional<Device> device;  // none: the host twin
  std::string why_host;          // for "auto" without a GPU
  RecordBook records;            // the shipped ones and the user's

  /// What plans are made for: the device's, or an H200's.
  DeviceInfo info() const { return device ? device->info() : DeviceInfo{}; }
};

/// `name`: "auto", "host" or the number of a GPU. Errors: invalid_argument, and Device::open's for a number.
Result<Target> find_target(const std::string& name, const Options& options);

}  // namespace sluice::cli
