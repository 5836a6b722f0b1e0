// SPDX-License-Identifier: Apache-2.0
// Rules that hold in every interleaving or in none, because they only concern one role's own list of steps:
// sums are read when they are complete, every tile is stored exactly once. And the notes that Simulator
// needs: which tile a product is for, and which phase of a barrier a signal is meant for.
#pragma once

#include <span>

#include <sluice/twin/failure.h>
#include <sluice/twin/scenario.h>

namespace sluice::twin {

/// Fills in Step::tile and k_tile of products, `pass` and `sequence`. Fails on the first broken rule.
std::optional<Failure> annotate(ClusterProgram& program);

/// Where the launch may begin before earlier ones have ended (wait_rules.cc): every role waits before it
/// reads what they write or writes what they read, and every CTA before it leaves.
std::optional<Failure> check_waits(const ClusterProgram& program);

/// Over all clusters (coverage.cc): every 64 rows x store_columns of every tile are stored by exactly one
/// cluster, or by each peer of it that may be the last; every k-tile of every tile is multiplied once; peers'
/// slots and counters are their own.
std::optional<Failure> check_coverage(std::span<const ClusterProgram> clusters);

/// Name of an agent: "cta 1 math 0", "cta 0 load", "cta 1 math 0 warp 2".
std::string agent_name(const Scenario& scenario, int agent);

}  // namespace sluice::twin
