// SPDX-License-Identifier: Apache-2.0
// Rules for every compiled GEMM kernel, checked in its cubin without a GPU: no spills, TMA stores present, no
// WGMMA that ptxas serialised. Called for each registered config, and for kernels with planted faults.
#pragma once

#include <string>
#include <vector>

#include <sluice/run/jit/build_report.h>
#include <sluice/spec/config.h>

#include "tests/compile/opcodes.h"

namespace sluice::test {

/// Returns the rules that the cubin breaks, with figures; empty if the kernel is as its config requires.
std::vector<std::string> kernel_faults(const KernelConfig& config, const Cubin& cubin,
                                       const OpcodeTable& opcodes);

}  // namespace sluice::test
