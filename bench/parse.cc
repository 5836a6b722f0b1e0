// SPDX-License-Identifier: Apache-2.0
#include <sluice/bench/parse.h>

#include <charconv>
#include <limits>

#include <sluice/messages/errors.h>
#include <sluice/text.h>
#include <sluice/try.h>

namespace sluice::bench {

Result<std::vector<i64>> parse_sizes(const std::string& text, int count, const std::string& what,
                                     const std::string& like) {
  std::vector<i64> sizes;
  const char* at = text.data();
  const char* end = text.data() + text.size();
  while (true) {
    i64 value = 0;
    const auto [next, status] = std::from_chars(at, end, value);
    if (status != std::errc{} || value < 0) break;
    sizes.push_back(value);
    if (next == end) {
      if (static_cast<int>(sizes.size()) == count) return sizes;
      break;
    }
    if (*next != 'x') break;
    at = next + 1;
  }
  return bad_argument("{} {} must be {} numbers joined by x, like {}", what, in_quotes(text), count, like);
}

Result<std::vector<int>> parse_int_sizes(const std::string& text, int count, const std::string& what,
                                         const std::string& like) {
  SLUICE_TAKE(const std::vector<i64> sizes, parse_sizes(text, count, what, like));
  constexpr i64 kMost = std::numeric_limits<int>::max();
  for (const i64 size : sizes)
    if (size > kMost) return bad_argument("{} {}: {} must be at most {}", what, in_quotes(text), size, kMost);
  return std::vector<int>(sizes.begin(), sizes.end());
}

}  // namespace sluice::bench
