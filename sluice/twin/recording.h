// SPDX-License-Identifier: Apache-2.0
// The roles of every cluster of a scenario, as lists of steps that the explorers and run.cc execute. This
// header does not include the kernel: its gemm() and the public namespace sluice::gemm exclude each other.
#pragma once

#include <optional>

#include <sluice/twin/failure.h>
#include <sluice/twin/scenario.h>

namespace sluice::twin {

/// A recorded and annotated scenario, or the rule that recording found broken.
struct Recording {
  std::vector<ClusterProgram> clusters;
  std::optional<Failure> failure;
};

/// Records kernels/gemm.cuh itself. Mutants use record<Mutant>() of record.h.
Recording record_gemm(const Scenario& scenario);

/// Annotates a recording and checks the rules of single roles and of coverage (local_rules.h). Call it last.
void finish_recording(Recording& recording);

}  // namespace sluice::twin
