// SPDX-License-Identifier: Apache-2.0
// The kernels of a config pool, compiled in parallel and kept loaded, so that preparing a case is a look-up.
#pragma once

#include <vector>

#include <sluice/gemm.h>

namespace sluice::testing {

struct KernelPool {
  std::vector<KernelConfig> configs;
  std::vector<gemm::Kernel> kernels;  // kernel i belongs to config i, on a small problem

  /// Error: names the first config that does not compile or load.
  static Result<KernelPool> prepare(const Device& device, const std::vector<KernelConfig>& configs);
};

/// The kernels of class_pool(), prepared once a process. Tests over all classes start with it: compiling them
/// one by one would take longer than the test.
const Result<KernelPool>& class_kernels(const Device& device);

}  // namespace sluice::testing
