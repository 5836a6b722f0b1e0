// SPDX-License-Identifier: Apache-2.0
// Planted bugs of launches that may start early: kernels/gemm.cuh waits too late, not in all roles, or never.
// overlap_test.cc shows that each violates the contract, chain_mutants_test.cc shows the consequences.
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
/// Bug: loads A together with B before the wait, though only weights may be loaded there.
struct LoadsAEarly : Machine {
  using Machine::Machine;
  void load_b(int stage, int k_tile) {
    Machine::load_b(stage, k_tile);
    Machine::load_a(stage, k_tile);
  }
};
/// Bug: the warps that load block scales read them before the wait.
struct FetchesScalesEarly : Machine {
  using Machine::Machine;
  void wait_prerequisites() {
    if (is_scale_warp()) fetch_scales(0);
    Machine::wait_prerequisites();
  }
};
/// Bug: a cluster without a tile does not wait. It has nothing to read, but exits too early.
struct IdleCtasLeave : Machine {
  using Machine::Machine;
  void wait_prerequisites() {
    if (is_load_role() || cluster_index() == 0) Machine::wait_prerequisites();
  }
  void read_tensor_scales() {}
};

/// Bug: the math groups store before they wait.
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
/// Bug: a cluster without a tile exits without waiting, in all its roles.
struct IdleCtaLeaves : Machine {
  using Machine::Machine;
  void wait_prerequisites() {
    if (cluster_index() == 0) Machine::wait_prerequisites();
  }
  void read_tensor_scales() {}
};
/// Bug: all CTAs behave as if they had no tile, and exit without waiting.
struct AllCtasLeave : Machine {
  using Machine::Machine;
  void wait_prerequisites() {}
  void load_a(int, int) {}
  void read_tensor_scales() {}
  void issue_store(int, const Tile&, int, int) {}
};

}  // namespace sluice::twin
