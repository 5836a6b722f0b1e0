// SPDX-License-Identifier: Apache-2.0
// Converts the results of a tuning run to tuning records for the planner. report.cc also has the summaries
// of sluice/bench/tune.h.
#pragma once

#include <string>

#include <sluice/bench/tune.h>
#include <sluice/plan/records/record.h>

namespace sluice::bench {

/// Origin of a result, as stored in its tuning record.
struct TuneOrigin {
  DeviceInfo device;
  std::string driver;  // the driver's version
  std::string date;    // as utc_now() prints it
  std::string method;  // as method_text() prints it
};

/// Makes the tuning record. result.state must be `tuned`.
TuningRecord record_of(const TuneResult& result, const TuneOrigin& origin);

}  // namespace sluice::bench
