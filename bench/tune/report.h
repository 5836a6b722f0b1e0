// SPDX-License-Identifier: Apache-2.0
// Converts the results of a tuning run to a tuning record for the planner, a bench record with all candidates
// for sluice_fit, and a summary as text.
#pragma once

#include <sluice/tools.h>

#include "bench/record.h"
#include "bench/tune/tune.h"

namespace sluice::bench {

/// Origin of a result, as stored in its tuning record.
struct TuneOrigin {
  DeviceInfo device;
  std::string driver;  // the driver's version
  std::string date;    // as utc_now() prints it
  std::string method;  // as method_text() prints it
};

/// Returns for example "cold, 9 rounds of 3.0 ms, 20 ms rest".
std::string method_text(const Method& method);

/// Makes the tuning record. result.state must be `tuned`.
TuningRecord record_of(const TuneResult& result, const TuneOrigin& origin);

/// The shape as `sluice bench --tune` writes it. Its contenders are the pick and the best, its candidates all
/// trials that were tried.
ShapeRecord shape_record_of(const TuneResult& result);

struct TuneSummary {
  int tuned = 0, known = 0, no_time = 0, failed = 0;
  int wrong_kernels = 0, failed_kernels = 0;
  int within_noise = 0;  // tuned problems where the model's pick is as fast as the best plan, within noise
  double mean_gain = 1;  // geometric mean over problems of pick time over best time
  double worst_gain = 1;
  std::string worst;            // name of the problem with the largest gain
  int recorded = 0;             // tuned problems whose previous record's plan was timed
  double mean_record_gain = 1;  // geometric mean over problems of the recorded plan's time over the best time
};
TuneSummary summarise(const std::vector<TuneResult>& results);

}  // namespace sluice::bench
