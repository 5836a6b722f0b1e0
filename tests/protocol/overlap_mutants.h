// SPDX-License-Identifier: Apache-2.0
// Planted bugs of launches that may begin early: kernels/gemm.cuh waits too late, too seldom or never.
// overlap_test.cc shows that each breaks the contract, chain_mutants_test.cc the consequences.
#pragma once

#include <sluice/twin/record.h>

namespace sluice::twin {

struct NeverWaits : Machine {
  using Machine::Machine;
  void wait_prerequisites() {}
};
struct OnlyLoadWaits : Machine {
  using Machine::Machine;
  void wait_prerequisites() {
    if (is_load_role()) Machine::wait_prerequisites();
  }
};
/// Loads A's part with B's, as in the rest of the ring.
struct LoadsAEarly : Machine {
  using Machine::Machine;
  void load_b(int stage, int k_tile) {
    Machine::load_b(stage, k_tile);
    Machine::load_a(stage, k_tile);
  }
};
/// The warps that load block scales begin before the wait.
struct FetchesScalesEarly : Machine {
  using Machine::Machine;
  void wait_prerequisites() {
    if (is_scale_warp()) fetch_scales(0);
    Machine::wait_prerequisites();
  }
};
/// Cluster 1 has no tile, so nothing comes before its missing wait, but it leaves early.
struct IdleCtasLeave : Machine {
  using Machine::Machine;
  void wait_prerequisites() {
    if (is_load_role() || cluster_index() == 0) Machine::wait_prerequisites();
  }
  void read_tensor_scales() {}
};

/// Math groups work before they wait.
struct StoresEarly : Machine {
  using Machine::Machine;
  void wait_prerequisites() {
    if (!is_load_role()) store_direct({});
    Machine::wait_prerequisites();
  }
};
struct WritesSlotEarly : Machine {
  using Machine::Machine;
  void wait_prerequisites() {
    if (!is_load_role()) write_partial({});
    Machine::wait_prerequisites();
  }
};
struct CountsEarly : Machine {
  using Machine::Machine;
  void wait_prerequisites() {
    if (!is_load_role()) count_arrival({}, 1);
    Machine::wait_prerequisites();
  }
};
/// Cluster 1 has no tile, and all its roles leave.
struct IdleCtaLeaves : Machine {
  using Machine::Machine;
  void wait_prerequisites() {
    if (cluster_index() == 0) Machine::wait_prerequisites();
  }
  void read_tensor_scales() {}
};
/// No CTA has a tile, or all act so, and leave.
struct AllCtasLeave : Machine {
  using Machine::Machine;
  void wait_prerequisites() {}
  void load_a(int, int) {}
  void read_tensor_scales() {}
  void issue_store(int, const Tile&, int, int) {}
};

}  // namespace sluice::twin
