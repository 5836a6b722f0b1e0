// SPDX-License-Identifier: Apache-2.0
// Makes a plan of each tuning record, and of each product of a tuned chain. Used by `sluice verify
// --records`.
#pragma once

#include <string>
#include <vector>

#include <sluice/tools.h>

#include "bench/product.h"

namespace sluice::bench {

struct RecordedPlan {
  std::string name;  // the problem's name
  AnyPlan plan;
};

struct RecordedPlans {
  std::vector<RecordedPlan> plans;  // equal packed weights are neighbours
  /// Records without a plan, one line each: their GPU has another number of SMs, or the planner refused them.
  std::vector<std::string> passed_over;
};

/// Makes the plans for `device`. Records of a GPU with another name are used if it has the same number of
/// SMs.
RecordedPlans recorded_plans(const ParsedRecords& records, const DeviceInfo& device);

}  // namespace sluice::bench
