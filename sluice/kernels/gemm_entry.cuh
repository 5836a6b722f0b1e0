// SPDX-License-Identifier: Apache-2.0
// The entry of the GEMM kernel: the protocol of gemm.cuh with the GPU's implementation of each step. A JIT
// unit includes this file and the WGMMA wrappers of its tile width, and calls run_gemm (plan/text/units.cc).
#pragma once

#include <sluice/device/machine.cuh>
#include <sluice/kernels/gemm.cuh>

namespace sluice {

template <KernelConfig kConfig>
SLUICE_DEVICE void run_gemm(const GemmParams& params) {
  extern __shared__ __align__(kSmemAlign) u8 dynamic_smem[];
  Machine<kConfig> machine(params, ptx::shared_address(dynamic_smem));
  run_roles(machine);
}

}  // namespace sluice
