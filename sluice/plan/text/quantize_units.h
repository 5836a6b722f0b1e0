// SPDX-License-Identifier: Apache-2.0
// The JIT units of quantisers. Called by quantize.cc; tests compile all of them without a GPU.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sluice/spec/quantize.h>

namespace sluice {

inline constexpr Granularity kGranularities[] = {Granularity::tensor, Granularity::row,
                                                 Granularity::row_block, Granularity::square_block};

std::string quantize_unit_text(const QuantizeConfig& config);

std::vector<QuantizeStep> quantize_steps(std::optional<Granularity> granularity);

/// Returns the units of a quantiser: for each step one with vector accesses, then one without.
std::vector<std::string> quantize_units(DType input, std::optional<Granularity> granularity, Gate gate,
                                        Overlap overlap = {}, bool gathered = false);

}  // namespace sluice
