// SPDX-License-Identifier: Apache-2.0
// Parses sizes joined by x, for flags, problem files and models.
#pragma once

#include <string>
#include <vector>

#include <sluice/result.h>
#include <sluice/spec/base.h>

namespace sluice::bench {

/// "128x256" to {128, 256}: `count` numbers, all >= 0. The error names the value `what` and gives the example
/// `like`.
Result<std::vector<i64>> parse_sizes(const std::string& text, int count, const std::string& what,
                                     const std::string& like);
/// Numbers of at most 2^31-1.
Result<std::vector<int>> parse_int_sizes(const std::string& text, int count, const std::string& what,
                                         const std::string& like);

}  // namespace sluice::bench
