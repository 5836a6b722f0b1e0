// SPDX-License-Identifier: Apache-2.0
// The JIT units of the steps around products of experts. Called by run/ops/experts; tests compile all of them
// without a GPU.
#pragma once

#include <string>
#include <vector>

#include <sluice/spec/combine.h>
#include <sluice/spec/route.h>

namespace sluice {

std::string route_unit_text(const RouteConfig& config);
std::string combine_unit_text(const CombineConfig& config);

/// Returns the units of a combiner: with vector accesses, then without.
std::vector<std::string> combine_units(DType type, Overlap overlap = {});

}  // namespace sluice
