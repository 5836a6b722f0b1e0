// SPDX-License-Identifier: Apache-2.0
#include "gpu.h"

#include <cstdlib>

#include <sluice/host/device_impl.h>

#include "kernel_changes.h"

namespace sluice::testing {
namespace {

/// Every kernel of this process is changed as SLUICE_CHANGE says, if it is set, and names its lines.
Result<Device> opened() {
  Result<Device> device = Device::open(0, options_from_environment());
  const char* const name = std::getenv("SLUICE_CHANGE");
  if (!device || name == nullptr) return device;
  const Change* const change = find_change(name);
  if (change == nullptr)
    return Error{ErrorCode::invalid_argument, std::string("SLUICE_CHANGE: no change is called ") + name};
  device->impl().cache = changed_cache(device->options(), *change, {"--generate-line-info"});
  return device;
}

}  // namespace

const Result<Device>& gpu() {
  static const Result<Device> device = opened();
  return device;
}

i64 setting(const char* name, i64 otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoll(text) : otherwise;
}

}  // namespace sluice::testing
