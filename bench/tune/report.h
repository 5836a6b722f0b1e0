// SPDX-License-Identifier: Apache-2.0
// The results of a tuning run: a tuning record for the planner, a bench record with all candidates for
// sluice_fit, and a summary for people.
#pragma once

#include <sluice/tools.h>

#include "bench/record.h"
#include "bench/tune/tune.h"

namespace sluice::bench {

/// The data a record needs beside the result.
struct TuneOrigin {
  DeviceInfo device;
  std::string driver;  // version
  std::string date;    // utc_now()
  std::string method;  // method_text()
};

/// "cold, 9 rounds of 3.0 ms, 20 ms rest".
std::string method_text(const Method& method);

/// `result` must be tuned.
TuningRecord record_of(const TuneResult& result, const TuneOrigin& origin);

/// The shape as `sluice bench --tune` writes it; tools/sweep.py reads both. Its contenders are the pick and
/// the best, its candidates all trials that were tried.
ShapeRecord shape_record_of(const TuneResult& result);

struct TuneSummary {
  int tuned = 0, known = 0, no_time = 0, failed = 0;
  int wrong_kernels = 0, failed_kernels = 0;
  int within_noise = 0;  // tuned problems where the model's pick is as good as the best
  double mean_gain = 1;  // geometric mean of the best over the model's pick
  double worst_gain = 1;
  std::string worst;            // its problem
  int recorded = 0;             // tuned problems whose record was timed
  double mean_record_gain = 1;  // geometric mean of the best over the record's plan
};
TuneSummary summarise(const std::vector<TuneResult>& results);

}  // namespace sluice::bench
