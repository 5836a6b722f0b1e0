// SPDX-License-Identifier: Apache-2.0
// One shape from plan to record: prepare, fill, verify, screen, time in turn, all of it in one run. A dense
// product races against cuBLASLt's algorithms for it; one of packed weights against a plain read of its blob,
// the FP8 products of its size (cuBLASLt's, ours) and cuBLASLt's 16-bit one. Whatever fails is written into
// the record and the rest goes on; only a lost GPU ends a bench (still_alive).
#pragma once

#include <functional>
#include <string>

#include "bench/lab.h"
#include "bench/record.h"

namespace sluice::bench {

/// Told what is being done, for progress lines and for the watchdog.
using Phase = std::function<void(const std::string& what)>;

/// Times the plan that is given and, with Method::tune, the planner's other candidates for the request.
ShapeRecord measure_shape(const Lab& lab, const Planned& item, const Phase& phase);
/// The record of a problem that cannot be planned.
ShapeRecord unplanned_shape(const AnyProblem& problem, const Error& error);

/// Error driver: the context is lost (a kernel faulted), and nothing more can be measured by this process.
Result<void> still_alive(const Lab& lab);

/// "2026-11-21T10:00:00Z".
std::string utc_now();

/// The parts of a RunRecord that do not depend on the shapes. `command` and `commit` are the caller's.
RunRecord describe_run(const Lab& lab);

}  // namespace sluice::bench
