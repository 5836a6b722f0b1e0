// SPDX-License-Identifier: Apache-2.0
// Rules for every compiled GEMM kernel, checked in its cubin without a GPU: no spill, copy-engine stores
// present, no tensor-core work serialised by ptxas. Called for each registered config, and for planted bad
// kernels.
#pragma once

#include <string>
#include <vector>

#include <sluice/host/jit/build_report.h>
#include <sluice/spec/config.h>

#include "tests/compile/opcodes.h"

namespace sluice::test {

/// Returns the rules that the cubin breaks, with figures; empty if the kernel is as its config requires.
std::vector<std::string> kernel_faults(const KernelConfig& config, const Cubin& cubin,
                                       const OpcodeTable& opcodes);

}  // namespace sluice::test
