// SPDX-License-Identifier: Apache-2.0
// Converts names to values, for flags and problem files: the inverse of each name_of() that a user can type.
// A wrong name is an invalid_argument error that lists the right ones. Called by problem_flags and by verbs.
#pragma once

#include <string>
#include <vector>

#include <sluice/plan.h>
#include <sluice/spec/packing.h>

namespace sluice::cli {

Result<DType> parse_dtype(const std::string& text);
Result<Major> parse_major(const std::string& text);
Result<ScaleMode> parse_scale_mode(const std::string& text);
Result<Activation> parse_activation(const std::string& text);
Result<Update> parse_update(const std::string& text);
Result<Accumulate> parse_accumulate(const std::string& text);
Result<Schedule> parse_schedule(const std::string& text);
Result<StorePath> parse_store_path(const std::string& text);
Result<Raster> parse_raster(const std::string& text);
Result<Numbering> parse_numbering(const std::string& text);
Result<Combine> parse_combine(const std::string& text);
Result<ScaleZero> parse_scale_zero(const std::string& text);

/// "128x256" to {128, 256}: `count` numbers, all >= 0. The error names the value `what` and gives the example
/// `like`.
Result<std::vector<i64>> parse_sizes(const std::string& text, int count, const std::string& what,
                                     const std::string& like);
/// Numbers of at most 2^31-1.
Result<std::vector<int>> parse_int_sizes(const std::string& text, int count, const std::string& what,
                                         const std::string& like);

}  // namespace sluice::cli
