// SPDX-License-Identifier: Apache-2.0
// One shape from plan to record: plan, prepare, fill, verify, screen, time in turn. Whatever fails is written
// into the record and the rest goes on; only a lost GPU ends a bench (still_alive).
#pragma once

#include <functional>
#include <string>

#include "bench/lab.h"
#include "bench/record.h"

namespace sluice::bench {

/// A problem as the caller stated it.
struct Case {
  Problem problem;
  PlanOverrides overrides;
  float alpha = 1.0f;
  float beta = 0.0f;
};

/// Told what is being done, for progress lines and for the watchdog.
using Phase = std::function<void(const std::string& what)>;

ShapeRecord measure_shape(const Lab& lab, const Case& item, const Phase& phase);

/// Error driver: the context is lost (a kernel faulted), and nothing more can be measured by this process.
Result<void> still_alive(const Lab& lab);

/// "2026-11-21T10:00:00Z".
std::string utc_now();

/// The parts of a RunRecord that do not depend on the shapes. `command` and `commit` are the caller's.
RunRecord describe_run(const Lab& lab);

}  // namespace sluice::bench
