// SPDX-License-Identifier: Apache-2.0
// What every compiled GEMM kernel must be, told from its cubin alone: no GPU is needed to see a spill, a
// missing copy-engine store or tensor-core work that ptxas serialised. Called for each registered config, and
// for planted bad kernels to show that it can refuse.
#pragma once

#include <string>
#include <vector>

#include <sluice/host/jit/build_report.h>
#include <sluice/spec/config.h>

#include "tests/compile/opcodes.h"

namespace sluice::test {

/// The rules that the cubin breaks, each with the figures; empty if it is as the config promises.
std::vector<std::string> kernel_faults(const KernelConfig& config, const Cubin& cubin,
                                       const OpcodeTable& opcodes);

}  // namespace sluice::test
