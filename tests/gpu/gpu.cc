// SPDX-License-Identifier: Apache-2.0
#include "gpu.h"

#include <cstdlib>
#include <string>

namespace sluice::testing {

const Result<Device>& gpu() {
  static const Result<Device> device = Device::open(0, options_from_environment());
  return device;
}

i64 setting(const char* name, i64 otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoll(text) : otherwise;
}

void record(const char* key, i64 value) {
  ::testing::Test::RecordProperty(key, std::to_string(value));
}

}  // namespace sluice::testing
