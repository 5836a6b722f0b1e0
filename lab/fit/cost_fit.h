// SPDX-License-Identifier: Apache-2.0
// Fits the planner's cost model to measurements of `sluice tune --json` and `sluice bench --tune --json`. The
// aim is that the pick is fast. The error of estimated times is part of the objective because the loss of the
// pick changes in jumps, which a search cannot follow. Called by main.cc and by tests.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <sluice/plan/dense/cost_model.h>

namespace sluice::fitting {

/// One problem with the plans that were timed for it.
struct FitShape {
  struct Timing {
    KernelConfig config;
    WorkSplit split;
    double us = 0;
  };
  std::string name;
  Problem problem;  // its strides are filled in
  std::vector<Timing> timings;
};

/// Reads the timed shapes of a file, without candidates that failed or are wrong. Errors: io,
/// invalid_argument.
Result<std::vector<FitShape>> read_fit_shapes(const std::string& path);

struct FitQuality {
  double loss = 1,
         worst_loss = 1;  // time of the model's pick over the best measured time: geometric mean and maximum
  double spread = 0;      // root mean square of log(estimate / time), relative to the mean of each shape
  double error = 0;       // root mean square of these means: the error of estimated times
  std::string worst_shape;
};
/// `best` is the timed plan with the least measured time. `pick` is the plan with the least estimate among
/// the timed plans that the planner's search lists; if it lists none, `best`.
struct FitPick {
  const FitShape::Timing* pick;
  const FitShape::Timing* best;
  double estimate_us, best_estimate_us;  // the model's estimates of pick and best
};
FitPick pick_of(const FitShape& shape, const DeviceInfo& device, const Costs& constants);

FitQuality judge(const std::vector<FitShape>& shapes, const DeviceInfo& device, const Costs& constants);

/// A row of the planner's table (plan/constants.cc) that has bounds, so that it may be fitted.
using FitParameter = Constant<Costs>;
const std::vector<FitParameter>& fit_parameters();

struct FitStart {
  Costs constants;
  std::vector<std::string> moved;  // names of the constants to fit; empty: all
};

/// Minimises the objective by coordinate descent from `start`, with `passes` passes over all parameters.
/// `report` gets the pass and the objective after it. Deterministic.
Costs fit(const std::vector<FitShape>& shapes, const DeviceInfo& device, const FitStart& start, int passes,
          const std::function<void(int, const FitQuality&)>& report);

}  // namespace sluice::fitting
