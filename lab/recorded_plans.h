// SPDX-License-Identifier: Apache-2.0
// Makes a plan of each tuning record, and of each product of a tuned chain. Used by `sluice_lab verify
// --records`.
#pragma once

#include <string>
#include <vector>

#include <sluice/bench/request.h>
#include <sluice/plan/records/record.h>

namespace sluice::lab {

using namespace bench;

struct RecordedPlan {
  std::string name;  // name of the problem
  Plan plan;
};

struct RecordedPlans {
  std::vector<RecordedPlan> plans;  // plans with equal packed weights are adjacent
  /// Records that gave no plan, one line each: their GPU has another number of SMs, or the planner refused
  /// them.
  std::vector<std::string> passed_over;
};

/// Makes a plan of each record for `device`. Records of other GPUs are used if their number of SMs is the
/// same.
RecordedPlans recorded_plans(const ParsedRecords& records, const DeviceInfo& device);

}  // namespace sluice::lab
