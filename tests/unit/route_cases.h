// SPDX-License-Identifier: Apache-2.0
// Random chosen experts for tests of the sort of slots: on simulated threads and on a GPU. Ids are spread,
// skewed, all to one, missing, and any numbers at all; capacities are exact, too small, and none.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <sluice/experts.h>
#include <sluice/reference/experts.h>

namespace sluice::testing {

struct RouteCase {
  RouteShape shape{};
  bool wide = false;
  std::vector<i64> ids;  // tokens x ids_ld

  /// The ids as they lie in memory.
  std::vector<u8> bytes() const {
    std::vector<u8> memory(ids.size() * (wide ? 8 : 4) + 16, 0x7f);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const int narrow = static_cast<int>(ids[i]);
      wide ? std::memcpy(memory.data() + 8 * i, &ids[i], 8) : std::memcpy(memory.data() + 4 * i, &narrow, 4);
    }
    return memory;
  }
  Routed wanted(const std::vector<u8>& memory) const {
    return reference_route({memory.data(), wide, shape.tokens, shape.chosen, shape.ids_ld, shape.experts,
                            shape.rows, shape.pitch});
  }
};

class RouteDice {
 public:
  explicit RouteDice(unsigned seed) : random_(seed) {}

  i64 between(i64 low, i64 high) { return std::uniform_int_distribution<i64>(low, high)(random_); }
  bool one_in(i64 count) { return between(1, count) == 1; }

  /// Draws new ids of the same shape.
  void draw_ids(RouteCase& c) {
    const i64 experts = c.shape.experts, favourite = between(0, experts - 1), kind = between(0, 6);
    const i64 used = kind == 1 ? between(1, experts) : experts;
    for (i64& id : c.ids) {
      id = between(0, used - 1);
      if (kind == 2) id = favourite;
      if (kind == 3 && !one_in(4)) id = favourite;
      if (kind == 4 && one_in(3)) id = -1;
      if (kind == 5) id = -1;
      if (kind == 6 && one_in(2)) id = strange(c.wide, experts);
    }
  }
  RouteCase draw(i64 most_experts, i64 most_tokens, i64 most_chosen = 8) {
    RouteCase c{.wide = one_in(2)};
    RouteShape& s = c.shape;
    s.tokens = one_in(20) ? 0 : between(1, one_in(3) ? std::min<i64>(most_tokens, 4) : most_tokens);
    s.chosen = between(1, most_chosen);
    s.experts = one_in(12) ? 1 : between(1, most_experts);
    s.pitch = one_in(2) ? 1 : one_in(2) ? 64 : between(2, 130);
    s.ids_ld = s.chosen + (one_in(3) ? between(1, 5) : 0);
    c.ids.resize(static_cast<std::size_t>(s.tokens * s.ids_ld));
    const i64 enough = most_rows(s.tokens * s.chosen, s.experts, s.pitch);
    s.rows = one_in(3) ? between(0, enough) : one_in(10) ? 0 : enough + (one_in(4) ? between(1, 200) : 0);
    draw_ids(c);
    return c;
  }

 private:
  /// An id that no expert has, or might have if it were cut to fewer bits.
  i64 strange(bool wide, i64 experts) {
    const i64 narrow[] = {
        -1, -2, experts, experts + 7, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()};
    if (!wide || one_in(2)) return narrow[between(0, 5)];
    const i64 far[] = {i64{1} << 32, -(i64{1} << 32), std::numeric_limits<i64>::min(),
                       std::numeric_limits<i64>::max()};
    return far[between(0, 3)];
  }

  std::mt19937 random_;
};

}  // namespace sluice::testing
