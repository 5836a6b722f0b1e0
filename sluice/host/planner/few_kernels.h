// SPDX-License-Identifier: Apache-2.0
// Chooses a few of many kernels that together serve a range of problems with the least loss. It sees only
// numbers; row_plans.cc knows the problems and kernels. Deterministic: of equal choices the lower index wins.
#pragma once

#include <cstddef>
#include <vector>

namespace sluice {

/// The input. A place is one problem of the range; a choice is one kernel.
struct CostTable {
  std::vector<std::vector<double>> us;  // us[place][choice]: the choice's time there, or kCannotServe
  std::vector<double> least;            // per place: the time of the best kernel for it
  std::vector<double> weights;          // per place: the weight of its loss
  std::vector<std::vector<int>> units;  // per choice: numbers of the units that it compiles
};
inline constexpr double kCannotServe = 1e300;

struct FewKernels {
  std::vector<int> chosen;  // indices of choices, ascending; empty if no set serves all places
  int units = 0;            // number of different units of the chosen kernels
  double mean_loss = 0, worst_loss = 0;
  std::size_t worst_place = 0;
};

/// Chooses kernels with at most `most_units` units in all, or fewer if more would gain next to nothing.
FewKernels choose_few(const CostTable& costs, int most_units);

}  // namespace sluice
