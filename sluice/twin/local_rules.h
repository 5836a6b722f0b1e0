// SPDX-License-Identifier: Apache-2.0
// Rules over one role's own list of steps, which hold in every interleaving or in none: sums are read when
// they are complete, every tile is stored exactly once. annotate() also writes the notes that Simulator
// needs: the tile of each product, and the barrier phase that each signal is meant for.
#pragma once

#include <span>

#include <sluice/twin/failure.h>
#include <sluice/twin/scenario.h>

namespace sluice::twin {

/// Fills in Step::tile and k_tile of products, `pass` and `sequence`. Returns the first broken rule.
std::optional<Failure> annotate(ClusterProgram& program);

/// Rules for launches that may begin before earlier ones have ended (wait_rules.cc). Every role waits before
/// it reads or overwrites data of earlier launches, and every CTA waits before it exits.
std::optional<Failure> check_waits(const ClusterProgram& program);

/// Checks the im2col boxes of convolutions (conv_rules.cc): pixels, taps and channels of each load and store.
std::optional<Failure> check_conv_boxes(const ClusterProgram& program);

/// Checks rules over all clusters (coverage.cc). Each chunk (64 rows x store_columns) of a tile is stored by
/// exactly one cluster, or by each peer that may be the last. Every k-tile of every tile is multiplied once.
/// Tiles do not share slots or counters.
std::optional<Failure> check_coverage(std::span<const ClusterProgram> clusters);

/// Returns the name of an agent: "cta 1 math 0", "cta 0 load", "cta 1 math 0 warp 2".
std::string agent_name(const Scenario& scenario, int agent);

}  // namespace sluice::twin
