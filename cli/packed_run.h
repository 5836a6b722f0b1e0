// SPDX-License-Identifier: Apache-2.0
// `sluice run` and `plan` of a packed product.
#pragma once

#include <sluice/check/packed_data.h>

#include "bench/lab.h"
#include "cli/packed_flags.h"
#include "cli/target.h"
#include "cli/watchdog.h"

namespace sluice::cli {

struct PackedRun {
  bench::PackedCase item;
  u64 seed = 1;
  bool compiles = true;  // on the host: the GPU's kernel too
};

/// Prints the plan; with `all` every candidate, with `unit` what is compiled.
struct PackedPlanOutput {
  bool all = false, unit = false;
};
Result<void> print_packed_plan(const bench::PackedCase& item, const Target& target, PackedPlanOutput output);

/// Plan, compile, run, verify, time beside its peers. True if the result is right.
Result<bool> run_packed_on_gpu(const bench::Lab& lab, const PackedRun& run, Watchdog& watchdog);

/// Plan, compile, and the reference through the packed blob, on the CPU.
Result<bool> run_packed_on_host(const PackedRun& run, const RecordBook& records);

/// The packed blob's product on the CPU beside the plain one; what is wrong with it, or that all is well.
Result<Comparison> compare_on_host(const PackedProblem& problem, packed::DataKind kind, u64 seed);

}  // namespace sluice::cli
