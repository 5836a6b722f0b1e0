// SPDX-License-Identifier: Apache-2.0
// `sluice run` and `plan` of a mixed product.
#pragma once

#include <sluice/host/mixed_data.h>

#include "bench/lab.h"
#include "cli/mixed_flags.h"
#include "cli/target.h"
#include "cli/watchdog.h"

namespace sluice::cli {

struct MixedRun {
  bench::MixedCase item;
  u64 seed = 1;
  bool compiles = true;  // on the host: the GPU's kernel too
};

/// Prints the plan; with `all` every candidate, with `unit` what is compiled.
struct MixedPlanOutput {
  bool all = false, unit = false;
};
Result<void> print_mixed_plan(const bench::MixedCase& item, const Target& target, MixedPlanOutput output);

/// Plan, compile, run, verify, time beside its peers. True if the result is right.
Result<bool> run_mixed_on_gpu(const bench::Lab& lab, const MixedRun& run, Watchdog& watchdog);

/// Plan, compile, and the reference through the packed blob, on the CPU.
Result<bool> run_mixed_on_host(const MixedRun& run, const RecordBook& records);

/// The packed blob's product on the CPU beside the plain one; what is wrong with it, or that all is well.
Result<Comparison> compare_on_host(const MixedProblem& problem, mixed::DataKind kind, u64 seed);

}  // namespace sluice::cli
