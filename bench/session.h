// SPDX-License-Identifier: Apache-2.0
// Measures one shape: prepares, fills, verifies, screens, and times contenders in turn. A dense product is
// compared with cuBLASLt's algorithms, a convolution with cuDNN's plans. A packed product is compared with a
// plain read of its blob, with FP8 products of its size (cuBLASLt's and ours), and with cuBLASLt's 16-bit
// one. Failures are stored in the record and the rest continues. Only a lost GPU ends a bench (still_alive).
#pragma once

#include <functional>
#include <string>

#include "bench/lab.h"
#include "bench/record.h"

namespace sluice::bench {

/// Receives the name of each phase as it begins, for progress lines and the watchdog.
using Phase = std::function<void(const std::string& what)>;

/// Measures one shape: the given plan, the winner of its race and, with Method::tune, the planner's other
/// candidates.
ShapeRecord measure_shape(const Lab& lab, const Planned& item, const Phase& phase);
/// Returns the record of a problem that could not be planned.
ShapeRecord unplanned_shape(const Request& request, const Error& error);

/// Checks the GPU. Error driver: a kernel faulted and the context is lost, so this process can measure
/// nothing more.
Result<void> still_alive(const Lab& lab);

/// Fills the parts of a RunRecord that do not depend on shapes. The caller sets `command` and `commit`.
RunRecord describe_run(const Lab& lab);

}  // namespace sluice::bench
