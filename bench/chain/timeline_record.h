// SPDX-License-Identifier: Apache-2.0
// Timelines as JSON, for tools/report_records.py.
#pragma once

#include <string>
#include <vector>

#include "bench/chain/session.h"

namespace sluice::bench {

/// Returns JSON of schema "sluice-timeline-1". For each variant with a timeline it lists the steps and their
/// CTAs. A CTA is an array: its SM, then the time of each Moment in nanoseconds.
std::string timelines_json(const RunRecord& run, const std::vector<ChainRecord>& chains);

}  // namespace sluice::bench
