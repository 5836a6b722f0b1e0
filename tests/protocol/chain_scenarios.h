// SPDX-License-Identifier: Apache-2.0
// Launches for tests of chains: recorded products of the dense kernel, and functions that check a chain.
#pragma once

#include <set>

#include <sluice/twin/chain.h>
#include <sluice/twin/launch_lists.h>
#include <sluice/twin/record.h>

#include "scenarios.h"

namespace sluice::twin {

/// A kind of product with the smallest useful scenario: two CTAs or two clusters.
struct ProductKind {
  const char* name;
  Shape shape;
  bool swapped = false, residual = false;
};
inline const ProductKind kPingPong{"ping_pong", {.k_tiles = 1, .rows = 4, .clusters = 2}};
inline const ProductKind kCooperative{
    "cooperative", {.schedule = Schedule::cooperative, .k_tiles = 1, .rows = 2, .clusters = 2}};
inline const ProductKind kResidual{
    "residual", {.k_tiles = 1, .rows = 4, .clusters = 2, .store = StorePath::direct}, false, true};
inline const ProductKind kSwapped{"swapped", {.k_tiles = 1, .rows = 4, .clusters = 2}, true};
inline const ProductKind kSplit{"split",
                                {.schedule = Schedule::cooperative, .k_tiles = 2, .rows = 1, .slices = 2}};
inline const ProductKind kBlockScales{"block scales",
                                      {.k_tiles = 1, .rows = 4, .clusters = 2, .block_scales = true}};
inline const ProductKind kIdle{"idle CTA", {.k_tiles = 1, .rows = 1, .clusters = 2}};
inline const ProductKind kPair{"cluster of two", {.k_tiles = 1, .rows = 1, .cluster = {2, 1}}};
// Small enough for searches without reduction.
inline const ProductKind kOne{"one CTA", {.k_tiles = 1, .rows = 2}};
inline const ProductKind kOneScaled{"one CTA, block scales", {.k_tiles = 1, .rows = 2, .block_scales = true}};
inline const ProductKind kSeparate{
    "separate",
    {.schedule = Schedule::cooperative, .k_tiles = 2, .rows = 1, .slices = 2, .combine = Combine::separate}};

inline Scenario scenario_of(const ProductKind& kind, Overlap overlap) {
  Shape shape = kind.shape;
  shape.overlap = overlap;
  Scenario scenario = make(shape);
  scenario.config.epilogue.residual = kind.residual;
  if (kind.swapped) {
    scenario.config.d = DType::bf16;
    scenario.config.d_major = Major::mn;
  }
  return scenario;
}
template <class AnyMachine = Machine>
inline KernelLists product(const ProductKind& kind, Overlap overlap) {
  return gemm_lists(record_unchecked<AnyMachine>(scenario_of(kind, overlap)));
}

/// The earliest wait and trigger, with which a planted bug causes a fault.
inline constexpr Overlap kEager{.wait = Wait::weights_first, .trigger = Trigger::at_start};

/// Arrays of three launches, x -> y -> z -> out. Tests change the ones that they need.
struct ThreeArrays {
  LaunchArrays first{.name = "first", .edge = Edge::stream, .output = "y"};
  LaunchArrays second{.name = "second", .tokens = "y", .output = "z"};
  LaunchArrays third{.name = "third", .tokens = "z", .output = "out"};
};

inline void expect_complete(const Exploration& found, const std::string& name) {
  EXPECT_FALSE(found.failure) << name << '\n' << describe(*found.failure);
  EXPECT_TRUE(found.complete) << name << ": more than " << found.states << " states";
}

inline constexpr FailureKind kChainRules[] = {FailureKind::read_early, FailureKind::write_over_read,
                                              FailureKind::write_over_write, FailureKind::no_wait,
                                              FailureKind::deadlock};

/// Returns the rules that a chain violates. Each rule is checked in a search of its own.
inline std::set<std::string> caught_by(const std::vector<ChainLaunch>& chain) {
  std::set<std::string> kinds;
  for (const FailureKind asked : kChainRules) {
    ChainRules rules;
    for (const FailureKind kind : kChainRules)
      if (kind != asked) rules.left_out.push_back(kind);
    const Exploration found = explore_chain(chain, rules);
    if (found.failure) kinds.insert(name_of(found.failure->kind));
    EXPECT_TRUE(found.failure || found.complete);
  }
  return kinds;
}

}  // namespace sluice::twin
