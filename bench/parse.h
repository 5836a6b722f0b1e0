// SPDX-License-Identifier: Apache-2.0
// Parses sizes such as 4096x4096, for flags, problem files and models.
#pragma once

#include <string>
#include <vector>

#include <sluice/result.h>
#include <sluice/spec/base.h>

namespace sluice::bench {

/// Parses "128x256" into {128, 256}: `count` numbers, all >= 0. The error message contains the value's name
/// `what` and the example `like`.
Result<std::vector<i64>> parse_sizes(const std::string& text, int count, const std::string& what,
                                     const std::string& like);
/// As parse_sizes, for numbers up to 2^31-1.
Result<std::vector<int>> parse_int_sizes(const std::string& text, int count, const std::string& what,
                                         const std::string& like);

}  // namespace sluice::bench
