// SPDX-License-Identifier: Apache-2.0
// Measures how much each number of the cost models matters: the change of the pick's loss, in each list of
// timed candidates, if the number is 20 % wrong. Packed products have no timed candidates. Their loss is
// computed with the unchanged model's estimates, on the problems of the shipped records. Called by main.cc
// --effects; tools/constants.py makes the page.
#pragma once

#include <string>
#include <vector>

#include "tools/fit/cost_fit.h"

namespace sluice::fitting {

struct NamedShapes {
  std::string name;
  std::vector<FitShape> shapes;
};

/// The larger of the changes when the number is a fifth larger and a fifth smaller. Loss is the mean of pick
/// / best.
struct Effect {
  Constant<Costs> constant;
  std::vector<double> of_lists;  // one per list, in the same order
  double of_packed = 0;
};
std::vector<Effect> effects_of(const std::vector<NamedShapes>& lists, const DeviceInfo& device);

}  // namespace sluice::fitting
