// SPDX-License-Identifier: Apache-2.0
// --rows: a range of numbers of rows in place of a problem's m (sluice/rows.h), for compile, plan and rows.
#pragma once

#include <string>
#include <vector>

#include <sluice/rows.h>

#include "cli/requests.h"

namespace sluice::cli {

inline constexpr const char* kRowsHelp =
    "Few kernels for all numbers of rows from one to another, like 1:512, in the place of m";

/// Parses "1:512". Error invalid_argument unless both numbers are at least 1 and the first is no larger.
Result<RowRange> parse_rows(const std::string& text);

/// Error invalid_argument: an override, which a range cannot use, in flags or in a file's line; or a
/// convolution, whose rows follow from its input.
Result<void> check_row_requests(const RequestFlags& flags, const std::vector<bench::Request>& requests);

}  // namespace sluice::cli
