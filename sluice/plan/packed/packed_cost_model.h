// SPDX-License-Identifier: Apache-2.0
// Estimates the time of a packed kernel with cold L2. All have a fixed part. - Narrow: the longest of
// overlapping times (HBM, L2, the SM's load rate, instructions), then the reduction of
//   partial sums.
// - Wide: per tile the longer of products and instructions, then its stores. - Strip: as narrow, with tensor
// core time. The purpose is to rank the configurations of one problem. Called by packed_planner.cc.
#pragma once

#include <sluice/device_info.h>
#include <sluice/spec/packed_config.h>

namespace sluice {
struct Costs;  // costs.h
extern const Costs kCosts;
}  // namespace sluice

namespace sluice::packed {

/// Returns the estimated time in microseconds. `problem` is checked and not empty.
double estimate_us(const Problem& problem, const NarrowConfig& config, const DeviceInfo& device,
                   const Costs& costs = kCosts);
double estimate_us(const Problem& problem, const WideConfig& config, const DeviceInfo& device,
                   const Costs& costs = kCosts);
double estimate_us(const Problem& problem, const StripConfig& config, const DeviceInfo& device,
                   const Costs& costs = kCosts);

/// Returns how many registers a thread of the kernel uses without a limit (ptxas 13.0, 77 configs compiled,
/// within 10 of most). With a limit below that the kernel spills, or nearly does.
/// tests/unit/packed_units_test.cc compiles what the planner picks.
int estimate_registers(const NarrowConfig& config);

/// Returns how many CTAs share an SM. Registers and shared memory may allow more than the kernel was compiled
/// for. Further CTAs of an SM run in later waves.
double room_for(const NarrowConfig& config);
double room_for(const StripConfig& config);

}  // namespace sluice::packed
