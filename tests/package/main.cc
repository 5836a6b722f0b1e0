// SPDX-License-Identifier: Apache-2.0
// Uses the installed headers without a GPU: makes a plan, reads it, and gets a documented error.
#include <sluice/gemm.h>

#include <cstdio>

int main() {
  const sluice::DeviceInfo h200;
  const auto plan = sluice::gemm::plan({.m = 4096, .n = 4096, .k = 4096}, h200);
  if (!plan) return std::fprintf(stderr, "no plan: %s\n", plan.error().message.c_str()), 1;
  std::printf("%s\n", short_name(plan->config).c_str());
  const auto bad = sluice::gemm::plan({.m = -1, .n = 4096, .k = 4096}, h200);
  if (bad || bad.error().code != sluice::ErrorCode::invalid_size) return 2;
  // Makes the program link the launch path. Without a driver, the call returns an error.
  const auto device = sluice::Device::open(0, sluice::options_from_environment());
  return device || !device.error().message.empty() ? 0 : 3;
}
