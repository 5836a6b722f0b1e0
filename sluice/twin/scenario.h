// SPDX-License-Identifier: Apache-2.0
// What is explored: a config, a problem size and a work split; and the roles of one cluster that execute it.
// Agents are numbered cta * agents_per_cta + role; role 0 loads, then the warps of math group 0, then of 1.
#pragma once

#include <vector>

#include <sluice/spec/smem_layout.h>
#include <sluice/twin/step.h>

namespace sluice::twin {

struct Scenario {
  KernelConfig config{};
  int m = 1, n = 1, k = 1, batch = 1;
  WorkSplit split{};
  /// 1: a math group moves as one, its warps arrive together. kMathWarps: every warp is an agent of its own.
  int warps_per_group = 1;

  TileGrid grid() const { return tile_grid(config, m, n, k, batch); }
  int ctas() const { return cluster_size(config); }
  int agents_per_cta() const { return 1 + kMathGroups * warps_per_group; }
  int agents() const { return ctas() * agents_per_cta(); }
};

/// Where an agent is and what it does.
struct Agent {
  int cta = 0;
  int group = -1;  // -1: the load thread
  int warp = 0;

  bool loads() const { return group < 0; }
};
inline Agent agent_at(const Scenario& s, int index) {
  const int role = index % s.agents_per_cta();
  if (role == 0) return {.cta = index / s.agents_per_cta()};
  return {.cta = index / s.agents_per_cta(),
          .group = (role - 1) / s.warps_per_group,
          .warp = (role - 1) % s.warps_per_group};
}

using StepList = std::vector<Step>;

/// All roles of one cluster, as recorded.
struct ClusterProgram {
  Scenario scenario{};
  int cluster = 0;
  std::vector<StepList> agents;
};

}  // namespace sluice::twin
