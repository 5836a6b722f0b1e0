// SPDX-License-Identifier: Apache-2.0
// Which few of many kernels serve all of a range of problems with the least loss. Numbers alone: what they
// are the cost of, row_plans.cc knows. Deterministic; equal choices keep the lower index.
#pragma once

#include <cstddef>
#include <vector>

namespace sluice {

/// A row of `us` for each place of the range.
struct CostTable {
  std::vector<std::vector<double>> us;  // time of each choice there, or kCannotServe
  std::vector<double> least;            // time of the place with a kernel of its own
  std::vector<double> weights;          // how much its loss counts in the choice
  std::vector<std::vector<int>> units;  // numbers of what is compiled for each choice
};
inline constexpr double kCannotServe = 1e300;

struct FewKernels {
  std::vector<int> chosen;  // choices, in ascending order; empty if no set serves all places
  int units = 0;            // that they need together
  double mean_loss = 0, worst_loss = 0;
  std::size_t worst_place = 0;
};

/// At most `most_units` units; fewer where more would gain next to nothing.
FewKernels choose_few(const CostTable& costs, int most_units);

}  // namespace sluice
