// SPDX-License-Identifier: Apache-2.0
// The Levenshtein distance, in which swapping two adjacent letters counts as one change.
#include "cli/nearest.h"

#include <algorithm>

namespace sluice::cli {
namespace {

// No flag is as long, and the time grows with the product of both lengths.
constexpr std::size_t kLongestWord = 40;

}  // namespace

int letters_apart(std::string_view a, std::string_view b) {
  std::vector<int> before, above, row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::move(above);
    above = row;
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() > kLongestWord) return "";
  std::string found;
  int least = std::max(static_cast<int>(word.size()) / 3, 1) + 1;
  for (const std::string& candidate : known)
    if (const int apart = letters_apart(word, candidate);
        apart < least && apart < static_cast<int>(candidate.size())) {
      least = apart;
      found = candidate;
    }
  return found;
}

}  // namespace sluice::cli
