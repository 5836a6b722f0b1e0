// SPDX-License-Identifier: Apache-2.0
// Runs a plan without a GPU and checks the result. A dense plan runs on the host twin, which interleaves the
// roles of the kernel's warps and catches races and deadlocks of its protocol (docs/host-twin.md). A packed
// product is computed on the CPU from the blob, so that its format is tested. `sluice run` calls it where
// there is no GPU.
#pragma once

#include <string>
#include <vector>

#include <sluice/bench/request.h>
#include <sluice/records.h>

namespace sluice::bench {

/// Returns the plan that run_on_host() can run: gemm::plan's, or for the twin, which cannot simulate plain
/// schedules, the model's best plan with roles. Errors: those of gemm::plan; invalid_config (the overrides
/// ask for a plain schedule); invalid_size (more than the host can compute in about two minutes).
Result<Plan> plan_for_host(const Request& request, const RecordBook& records = shipped_records());

/// The seconds that run_on_host() needs on one core.
double seconds_on_host(const Problem& problem);

/// One comparison with the reference in double.
struct HostVerdict {
  bool right = false;
  std::string text;
};
struct HostRun {
  std::string twin{};  // the twin's counts of clusters, tiles, loads and steps; "" for packed products
  std::vector<HostVerdict> verdicts;
};
/// Runs a plan of plan_for_host() with random data. `seed` is that of the data and of the twin's
/// interleaving. Errors: those of the twin, with the place of a deadlock or a race.
Result<HostRun> run_on_host(const Request& request, const Plan& plan, u64 seed);

}  // namespace sluice::bench
