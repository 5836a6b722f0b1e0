// SPDX-License-Identifier: Apache-2.0
// The kernels that the tuner tries for a step of a chain: the planner's candidates, best estimate first, and
// the best of each kind. Kinds differ in how they share an SM with a neighbour. They are needed because the
// planner estimates a kernel that runs alone, which favours kernels that occupy a whole SM. Needs no GPU.
// Used by tune.cc.
#pragma once

#include <map>
#include <vector>

#include <sluice/chain.h>

namespace sluice::tuning {

/// A kernel as records name it; empty for companions, which have only one.
using StepKernel = std::optional<TunedChoice>;

enum class KernelKind : u8 {
  roles,        // warp-specialised: its CTA occupies a whole SM
  plain,        // mma.sync: few rows, little shared memory
  halves,       // uses at most half of an SM's shared memory and registers, so a neighbour's CTA also fits
  wholes,       // uses more
  deep_halves,  // halves whose rings hold much of the weights before the previous launch has ended
  deep,         // wholes with such rings
};
KernelKind kind_of(const Plan& plan);

struct StepKernels {
  std::vector<StepKernel> all;                // best estimate first; empty for companions
  std::map<KernelKind, StepKernel> of_kinds;  // the best estimate of each kind
};
/// Errors: those of gemm::candidates.
Result<StepKernels> kernels_of(const ChainStep& step, const DeviceInfo& device);

}  // namespace sluice::tuning
