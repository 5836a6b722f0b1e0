// SPDX-License-Identifier: Apache-2.0
// The kernels of a pool of configs, compiled in parallel and kept loaded, so that a case only has to look up
// its kernel.
#pragma once

#include <vector>

#include <sluice/gemm.h>

namespace sluice::testing {

struct KernelPool {
  std::vector<KernelConfig> configs;
  std::vector<gemm::Kernel> kernels;  // kernel i belongs to config i, and computes a small problem

  /// Compiles and loads all kernels. Error: names the first config that fails.
  static Result<KernelPool> prepare(const Device& device, const std::vector<KernelConfig>& configs);
};

/// Returns the kernels of class_pool(), prepared once per process. Tests over all classes call this first:
/// compiling one kernel after the other would take longer than the test.
const Result<KernelPool>& class_kernels(const Device& device);

}  // namespace sluice::testing
