// SPDX-License-Identifier: Apache-2.0
// Runs a small problem on the CPU with the kernel's own source (kernels/gemm.cuh): the plan's config, work
// split, roles, ring and store buffers, with real numbers. Invariant: every protocol rule of
// docs/host-twin.md is checked; a broken rule is an Error. Called by `sluice run --device host` and by
// tests/protocol/run_test.cc.
#pragma once

#include <sluice/plan.h>
#include <sluice/reference/gemm.h>

namespace sluice::twin {

using sluice::HostBuffers;  // host memory with the layouts of the plan's problem; unused ones may be null

/// Counters of one execution.
struct TwinReport {
  i64 steps = 0;             // steps of roles and of the copy engine
  i64 context_switches = 0;  // steps whose actor differs from that of the step before
  i64 tiles = 0;             // tiles computed, including those outside D
  i64 clusters = 0;          // clusters that had work
  i64 loads = 0;             // slices of stages that TMA loaded
  i64 stores = 0;            // chunks that TMA (or store_direct) wrote to D
};

/// Executes `plan` in an interleaving that `seed` selects; every seed gives the same bits in D. Clusters run
/// one after the other, so with Combine::add slices are added to D in cluster order. Errors: invalid_config
/// (the plan breaks a rule of validate()), invalid_pointer, internal (a broken protocol rule; the message has
/// the seed and each waiting agent).
Result<TwinReport> run_on_host(const Plan& plan, const HostBuffers& buffers, float alpha, float beta,
                               u64 seed);

}  // namespace sluice::twin
