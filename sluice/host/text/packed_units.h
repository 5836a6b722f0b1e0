// SPDX-License-Identifier: Apache-2.0
// The JIT units of packed products. Called by packed.cc and `sluice compile`; tests compile some of them
// without a GPU.
#pragma once

#include <string>
#include <vector>

#include <sluice/packed.h>

namespace sluice {

std::string unit_text(const NarrowConfig& config);
std::string unit_text(const WideConfig& config);
std::string unit_text(const StripConfig& config);
std::string unit_text(const PackedConfig& config);

namespace packed {

/// Returns the units that a launch of the plan needs; none if D is empty.
std::vector<std::string> units_of(const Plan& plan);

}  // namespace packed
}  // namespace sluice
