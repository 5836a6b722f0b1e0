// SPDX-License-Identifier: Apache-2.0
#include "counting_device.h"

#include <atomic>

#include <sluice/run/driver/api.h>

namespace sluice::testing {
namespace {

std::atomic<int> launches{0};
DriverApi table;  // the driver's functions, except for the launch
decltype(DriverApi::cuLaunchKernelEx) real_launch = nullptr;

CUresult CUDAAPI count_and_launch(const CUlaunchConfig* config, CUfunction function, void** params,
                                  void** extra) {
  ++launches;
  return real_launch(config, function, params, extra);
}

Result<Device> open_counting() {
  const auto real = load_driver();
  if (!real) return real.error();
  table = **real;
  real_launch = table.cuLaunchKernelEx;
  table.cuLaunchKernelEx = &count_and_launch;
  replace_driver_for_test(&table);
  Result<Device> device = Device::open(0, options_from_environment());
  replace_driver_for_test(nullptr);
  return device;
}

}  // namespace

const Result<Device>& counting_device() {
  static const Result<Device> device = open_counting();
  return device;
}

int launches_counted() {
  return launches;
}

}  // namespace sluice::testing
