// SPDX-License-Identifier: Apache-2.0
#include "kernel_pool.h"

#include <chrono>
#include <cstdio>

#include "config_pool.h"
#include "random_case.h"

namespace sluice::testing {

Result<KernelPool> KernelPool::prepare(const Device& device, const std::vector<KernelConfig>& configs) {
  std::vector<Plan> plans;
  for (const KernelConfig& config : configs)
    plans.push_back(plan_for(problem_for(config, 128, 128, 128), config, device.info()));
  const auto start = std::chrono::steady_clock::now();
  std::vector<Result<gemm::Kernel>> prepared = gemm::prepare(device, plans);
  KernelPool pool{.configs = configs, .kernels = {}};
  for (size_t i = 0; i < prepared.size(); ++i) {
    if (!prepared[i])
      return Error{prepared[i].error().code, to_string(configs[i]) + ": " + prepared[i].error().message};
    pool.kernels.push_back(std::move(*prepared[i]));
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("prepared %zu kernels in %.1f s\n", configs.size(), seconds.count());
  return pool;
}

const Result<KernelPool>& class_kernels(const Device& device) {
  static const Result<KernelPool> pool = KernelPool::prepare(device, class_pool());
  return pool;
}

}  // namespace sluice::testing
