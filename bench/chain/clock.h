// SPDX-License-Identifier: Apache-2.0
// Runs a variant's chain again with kernels that record their times (chain/timeline.h). Part of
// chain/session.h.
#pragma once

#include <sluice/tools.h>

#include "bench/chain/arms.h"

namespace sluice::bench {

/// Returns a compiler that puts kTimelinePrologue before each kernel's source, so that the kernel records its
/// timeline.
CompilerSeam timeline_compiler(const Options& options);

/// Opens the lab's GPU a second time. Kernels compiled through this handle record their timeline. Errors:
/// those of Device::open.
Result<Device> open_timeline_device(const Lab& lab);

/// Replays the chain a few times and returns the timeline of the replay with the median layer time. Errors:
/// those of Chain::prepare and ChainGraph::capture; internal, if bits differ from the variant's result or a
/// kernel recorded nothing.
Result<Timeline> clock_arm(const Work& work, const Device& device, const Arm& arm);

}  // namespace sluice::bench
