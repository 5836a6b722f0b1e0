// SPDX-License-Identifier: Apache-2.0
// --rows: a range of numbers of rows that replaces a problem's m (sluice/rows.h), for compile, plan and rows.
#pragma once

#include <string>
#include <vector>

#include <sluice/rows.h>

#include "cli/requests.h"

namespace sluice::cli {

inline constexpr const char* kRowsHelp =
    "Few kernels for all numbers of rows from one to another, like 1:512, in the place of m";

/// Parses a range of rows such as "1:512". Error invalid_argument: a number is below 1, or the first is
/// larger than the second.
Result<RowRange> parse_rows(const std::string& text);

/// Returns an error (invalid_argument) if a problem has overrides, which a range of rows cannot use, or is a
/// convolution, whose rows follow from its input.
Result<void> check_row_requests(const RequestFlags& flags, const std::vector<bench::Request>& requests);

}  // namespace sluice::cli
