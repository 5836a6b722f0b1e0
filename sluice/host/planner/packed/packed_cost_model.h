// SPDX-License-Identifier: Apache-2.0
// How long a configuration of a packed kernel will take with cold L2. Narrow: a fixed part, the slowest of
// four things that overlap (HBM, L2, what an SM can take, instructions), and the sums that meet at the end.
// Wide: a fixed part, and for each tile the slower of products and instructions, and its stores. Strip: as
// narrow, and the tensor cores. It is there to rank configurations of one problem. Called by
// packed_planner.cc.
#pragma once

#include <sluice/packed.h>

namespace sluice {
struct Costs;  // costs.h
extern const Costs kCosts;
}  // namespace sluice

namespace sluice::packed {

/// Microseconds that a checked problem takes, which is not empty.
double estimate_us(const PackedProblem& problem, const NarrowConfig& config, const DeviceInfo& device,
                   const Costs& costs = kCosts);
double estimate_us(const PackedProblem& problem, const WideConfig& config, const DeviceInfo& device,
                   const Costs& costs = kCosts);
double estimate_us(const PackedProblem& problem, const StripConfig& config, const DeviceInfo& device,
                   const Costs& costs = kCosts);

/// Registers that a thread takes if it may (ptxas 13.0, 77 configs compiled, within 10 of most): with a
/// smaller share of the SM it spills, or nearly. tests/unit/packed_units_test.cc compiles what the planner
/// picks.
int estimate_registers(const NarrowConfig& config);

/// CTAs that share an SM: registers and shared memory may have room for more than the kernel promises. What
/// else an SM has comes one wave after the other.
double room_for(const NarrowConfig& config);
double room_for(const StripConfig& config);

}  // namespace sluice::packed
