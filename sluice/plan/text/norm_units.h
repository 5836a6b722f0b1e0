// SPDX-License-Identifier: Apache-2.0
// The JIT units of norms. Called by norm.cc; tests compile all of them without a GPU.
#pragma once

#include <string>
#include <vector>

#include <sluice/spec/norm.h>

namespace sluice {

const char* name_of(NormStore store);
std::string norm_unit_text(const NormConfig& config);

/// Returns the units of a norm: with vector accesses, then without.
std::vector<std::string> norm_units(DType input, NormStore store, Overlap overlap = {});

}  // namespace sluice
