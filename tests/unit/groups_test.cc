// SPDX-License-Identifier: Apache-2.0
// The table of groups (spec/groups.h) against its definition in 64 bits, for random tables and for any
// numbers at all. Each of these planted bugs was seen to fail here: no clamp to 0, or to `total`. `before`
// that is not the largest. A last slot that two groups get. A pitch that rounds down, or overflows. A search
// that asks `<` for `<=`. A lane that is one group short. Tiles that are not rounded up.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include <sluice/twin/scenario.h>

namespace sluice {
namespace {

constexpr int kMostRows = std::numeric_limits<int>::max() - 1024;  // a problem has no more

struct Case {
  GroupKind kind;
  int pitch, total, tile_rows;
  std::vector<int> numbers;

  int groups() const { return static_cast<int>(numbers.size()); }
};

/// Rows of each group by definition.
std::vector<GroupRows> defined(const Case& c) {
  std::vector<GroupRows> rows;
  i64 largest = 0;
  for (size_t g = 0; g < c.numbers.size(); ++g) {
    const i64 number = std::max<i64>(c.numbers[g], 0), total = c.total;
    i64 begin = static_cast<i64>(g) * c.pitch, end = begin + std::min<i64>(number, c.pitch);
    if (c.kind == GroupKind::ends) {
      begin = (largest + c.pitch - 1) / c.pitch * c.pitch;
      end = number;
      largest = std::max(largest, std::min(number, total));
    }
    begin = std::min(begin, total);
    end = std::max(begin, std::min(end, total));
    rows.push_back({static_cast<int>(begin), static_cast<int>(end)});
  }
  return rows;
}

void check(const Case& c) {
  const int most = (c.groups() + 127) / 128 * 128;
  const KernelConfig config{.tile = {.m = c.tile_rows}, .groups = {c.kind, most}};
  const GroupTable<twin::GroupInts> table{twin::read_groups(config, {c.kind, c.pitch}, c.total, c.numbers),
                                          most};
  int tiles = 0;
  i64 used = 0;
  int last_end = 0;
  const std::vector<GroupRows> rows = defined(c);
  for (int g = 0; g < c.groups(); ++g) {
    const GroupRows found = table.rows(g), wanted = rows[static_cast<size_t>(g)];
    const int height = wanted.end - wanted.begin;
    ASSERT_EQ(found.end - found.begin, height) << "group " << g;
    if (height > 0) {
      ASSERT_EQ(found.begin, wanted.begin) << "group " << g;
      ASSERT_GE(found.begin, last_end) << "groups overlap";
      last_end = found.end;
    }
    ASSERT_TRUE(found.begin >= 0 && found.end <= c.total);
    ASSERT_EQ(table.tiles_before(g), tiles);
    for (int tile = 0; tile < ceil_div(height, c.tile_rows); ++tile)
      ASSERT_EQ(table.group_of(tiles + tile, c.groups()), g);
    tiles += ceil_div(height, c.tile_rows);
    used += height;
  }
  ASSERT_EQ(table.tiles_before(c.groups()), tiles);
  ASSERT_LE(used, c.total);
  ASSERT_LE(tiles, c.total / c.tile_rows + c.groups());
}

Case drawn(std::mt19937& random) {
  const auto number = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  Case c{.kind = number(0, 2) == 0 ? GroupKind::counts : GroupKind::ends,
         .pitch = number(0, 1) ? 1 : number(1, 200),
         .total = number(0, 5000),
         .tile_rows = number(0, 1) ? 64 : 128};
  if (number(0, 30) == 0) c.total = kMostRows - number(0, 200);
  const int groups = number(0, 3) == 0 ? number(1, kMostGroups) : number(1, 70);
  int end = 0;
  const int kind = number(0, 3);  // 0, 1: sound tables; 2: near; 3: any numbers
  for (int g = 0; g < groups; ++g) {
    const int height =
        number(0, 2) == 0 ? 0 : number(0, 2 * (c.total / groups < 5000 ? c.total / groups : 5000) + 1);
    if (c.kind == GroupKind::counts) {
      c.numbers.push_back(height);
    } else {
      end = static_cast<int>(std::min<i64>(i64{ceil_div(i64{end}, i64{c.pitch})} * c.pitch + height,
                                           std::numeric_limits<int>::max() - 1000));
      c.numbers.push_back(end);
    }
    if (kind == 2 && number(0, 9) == 0) c.numbers.back() -= number(0, 300);
    if (kind == 3) c.numbers.back() = static_cast<int>(random());
  }
  return c;
}

TEST(groups, lie_where_the_table_says_and_never_outside) {
  std::mt19937 random(7);
  for (int i = 0; i < 4000 && !::testing::Test::HasFatalFailure(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    check(drawn(random));
  }
}

TEST(groups, of_other_libraries_are_read_as_they_mean_them) {
  check({GroupKind::ends, 1, 300, 64, {0, 64, 64, 65, 300}});        // torch's offsets
  check({GroupKind::ends, 128, 640, 128, {5, 129, 256, 400, 513}});  // each begins at a multiple of 128
  check({GroupKind::counts, 256, 1024, 64, {0, 256, 1, 300}});       // masked; 300 is clamped to the slot
  check({GroupKind::ends, 1, 0, 64, {0, 0}});
  check({GroupKind::counts, 1, 3, 64, {1, 1, 1, 1, 1}});  // fewer rows than groups
  const int most = std::numeric_limits<int>::max(), least = std::numeric_limits<int>::min();
  check({GroupKind::ends, 200, kMostRows, 64, {least, most, 0, most, -1}});
  check({GroupKind::counts, kMostRows, kMostRows, 128, {most, most, least}});
}

}  // namespace
}  // namespace sluice
