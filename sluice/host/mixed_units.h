// SPDX-License-Identifier: Apache-2.0
// The JIT units of mixed products. Called by mixed.cc and `sluice compile`; tests compile some of them
// without a GPU.
#pragma once

#include <string>
#include <vector>

#include <sluice/mixed.h>

namespace sluice {

std::string unit_text(const NarrowConfig& config);
std::string unit_text(const WideConfig& config);
std::string unit_text(const StripConfig& config);
std::string unit_text(const MixedConfig& config);

namespace mixed {

/// What has to be compiled for a launch of the plan; nothing if D is empty.
std::vector<std::string> units_of(const Plan& plan);

}  // namespace mixed
}  // namespace sluice
