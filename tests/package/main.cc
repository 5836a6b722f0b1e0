// SPDX-License-Identifier: Apache-2.0
// What a user can do without a GPU, through installed headers only: plan, read the plan, get a documented
// error.
#include <sluice/gemm.h>

#include <cstdio>

int main() {
  const sluice::DeviceInfo h200;
  const auto plan = sluice::gemm::plan({.m = 4096, .n = 4096, .k = 4096}, h200);
  if (!plan) return std::fprintf(stderr, "no plan: %s\n", plan.error().message.c_str()), 1;
  std::printf("%s\n", short_name(plan->config).c_str());
  const auto bad = sluice::gemm::plan({.m = -1, .n = 4096, .k = 4096}, h200);
  if (bad || bad.error().code != sluice::ErrorCode::invalid_size) return 2;
  // Links the launch path too: on a machine without a driver the error says so.
  const auto device = sluice::Device::open(0, sluice::options_from_environment());
  return device || !device.error().message.empty() ? 0 : 3;
}
