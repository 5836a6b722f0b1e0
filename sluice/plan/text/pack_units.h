// SPDX-License-Identifier: Apache-2.0
// The JIT units of packers. Called by pack.cc; tests compile them without a GPU.
#pragma once

#include <string>

#include <sluice/spec/pack.h>

namespace sluice {

/// Returns the format as an initialiser, for units, errors and tables:
/// "{.type = sluice::WeightType::uint4, .group = 64, ...}".
std::string to_string(const WeightFormat& format);

/// Returns the format as readable text: "uint4, group 64, fp16 scales, no zeros, order half".
std::string describe(const WeightFormat& format);

std::string pack_unit_text(const PackConfig& config);

}  // namespace sluice
