// SPDX-License-Identifier: Apache-2.0
// Timelines as JSON, for tools/report_records.py.
#pragma once

#include <string>
#include <vector>

#include "bench/chain/session.h"

namespace sluice::bench {

/// Schema "sluice-timeline-1": for each arm with a timeline, steps with their CTAs: [SM, then nanoseconds by
/// moment].
std::string timelines_json(const RunRecord& run, const std::vector<ChainRecord>& chains);

}  // namespace sluice::bench
