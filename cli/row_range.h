// SPDX-License-Identifier: Apache-2.0
// --rows: a range of numbers of rows in the place of a problem's m (sluice/rows.h). For compile, plan and
// rows.
#pragma once

#include <string>
#include <vector>

#include <sluice/rows.h>

#include "cli/requests.h"

namespace sluice::cli {

inline constexpr const char* kRowsHelp =
    "Few kernels for all numbers of rows from one to another, like 1:512, in the place of m";

/// "1:512". Error invalid_argument: no two numbers of at least 1, the first no more than the second.
Result<RowRange> parse_rows(const std::string& text);

/// Error invalid_argument: an override, which a range has no use for, in flags or on a line of a file.
Result<void> refuse_row_overrides(const RequestFlags& flags, const std::vector<bench::Request>& requests);

}  // namespace sluice::cli
