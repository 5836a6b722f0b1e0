// SPDX-License-Identifier: Apache-2.0
#include "gpu.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include <sluice/run/device/device_impl.h>

#include "kernel_changes.h"

namespace sluice::testing {

Result<KernelCache> kernel_cache(const Options& options) {
  const char* const name = std::getenv("SLUICE_CHANGE");
  if (name == nullptr) return KernelCache(options);
  const Change* const change = find_change(name);
  if (change == nullptr)
    return Error{ErrorCode::invalid_argument, std::string("SLUICE_CHANGE: no change is called ") + name};
  return changed_cache(options, *change, {"--generate-line-info"});
}

namespace {
Result<Device> opened() {
  Result<Device> device = Device::open(0, options_from_environment());
  if (!device) return device;
  Result<KernelCache> cache = kernel_cache(device->options());
  if (!cache) return cache.error();
  device->impl().cache = *std::move(cache);
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

void record(const char* key, i64 value) {
  ::testing::Test::RecordProperty(key, std::to_string(value));
}

void note_not_judged(const std::string& what) {
  static std::mutex mutex;
  static std::map<const ::testing::TestInfo*, i64> counts;
  const std::scoped_lock lock(mutex);
  std::printf("[NOT JUDGED] %s\n", what.c_str());
  record("not_judged", ++counts[::testing::UnitTest::GetInstance()->current_test_info()]);
}

bool is_right(const Comparison& found) {
  if (found.verdict() == Verdict::not_judged) note_not_judged(describe(found));
  return found.verdict() != Verdict::wrong;
}

}  // namespace sluice::testing
