// SPDX-License-Identifier: Apache-2.0
// The kernels of a config pool, compiled in parallel and kept loaded, so that preparing a case on one of them
// is a look-up.
#pragma once

#include <vector>

#include <sluice/gemm.h>

namespace sluice::testing {

struct KernelPool {
  std::vector<KernelConfig> configs;
  std::vector<gemm::Kernel> kernels;  // the i-th of the i-th config, on a small problem

  /// Error: the first config that does not compile or load, by name.
  static Result<KernelPool> prepare(const Device& device, const std::vector<KernelConfig>& configs);
};

/// Those of class_pool(), once for all tests of a process. A test that goes through the classes begins with
/// it: compiled one by one where they are first needed, they take longer than the test.
const Result<KernelPool>& class_kernels(const Device& device);

}  // namespace sluice::testing
