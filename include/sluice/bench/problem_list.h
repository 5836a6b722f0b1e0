// SPDX-License-Identifier: Apache-2.0
// Reads files of problems. If the first character is '[', the file is JSON: an array of objects whose keys
// are names of flags. Else each line has the flags of one problem: "4096x4096x4096 --dtype e4m3 --bias",
// "16x3584x8192 --weights int4". A # begins a comment. Entries become words of a command line, so that there
// is only one grammar: that of the tool's flags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sluice/result.h>

namespace sluice::bench {

struct ListedProblem {
  std::string where;  // "line 3", "entry 2"
  std::vector<std::string> words;
};

/// Error invalid_argument: the text is not such a list; it has too many problems, or a line that is too long.
Result<std::vector<ListedProblem>> listed_problems(std::string_view text);
/// Returns a file's text. Errors: io (it cannot be read, or has more than 16 MB).
Result<std::string> read_list(const std::string& path);

}  // namespace sluice::bench
