// SPDX-License-Identifier: Apache-2.0
// Runs a variant's chain again with kernels that record their times (chain/timeline.h). Part of
// chain/session.h.
#pragma once

#include <sluice/tools.h>

#include "bench/chain/arms.h"

namespace sluice::bench {

/// Compiles with kTimelinePrologue.
CompilerSeam timeline_compiler(const Options& options);

/// A second handle of the lab's GPU, whose kernels have the prologue. Errors: those of Device::open.
Result<Device> open_timeline_device(const Lab& lab);

/// Returns the timeline of the replay whose layer time is the median of a few. Errors: those of
/// Chain::prepare and ChainGraph::capture; internal (bits differ from the variant's, or a kernel recorded
/// nothing).
Result<Timeline> clock_arm(const Work& work, const Device& device, const Arm& arm);

}  // namespace sluice::bench
