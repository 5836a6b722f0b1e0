// SPDX-License-Identifier: Apache-2.0
// What tuning records make of the problems they are of: a plan for each record, and for each product of a
// tuned chain. Used by `sluice verify --records`.
#pragma once

#include <string>
#include <vector>

#include <sluice/tools.h>

#include "bench/product.h"

namespace sluice::bench {

struct RecordedPlan {
  std::string name;  // of the problem
  AnyPlan plan;
};

struct RecordedPlans {
  std::vector<RecordedPlan> plans;  // those of equal packed weights next to one another
  /// Records that made no plan here, a line each: of a GPU with another number of SMs, or refused.
  std::vector<std::string> passed_over;
};

/// `device`: its clusters and sizes are those that count; a record of another name is followed if it has as
/// many SMs.
RecordedPlans recorded_plans(const ParsedRecords& records, const DeviceInfo& device);

}  // namespace sluice::bench
