// SPDX-License-Identifier: Apache-2.0
// Groups of rows, whose sizes only the device knows: the rows of A and D belong to groups, and each group has
// its own matrix of B. Or groups along k, each with its own matrix of D, as gradients of weights need them.
// One int32 table says where groups lie. It is read at the start of a launch, so it may
// change between replays of a graph. Arithmetic only, the same on host, twin and device.
//
// Invariant: whatever numbers the table has, groups lie in [0, total], do not overlap, and have at most
// `total` rows together. So no number leads outside the buffers.
#pragma once

#include <sluice/spec/base.h>

namespace sluice {

/// How the table is read; number g of it belongs to group g.
/// - ends: one past the group's last row. It begins at the first multiple of `pitch` at or behind the end
///   of the group before. pitch 1: torch's offsets; 128: DeepGEMM's contiguous layout.
/// - counts: rows of the group, which begins at row g * pitch (DeepGEMM's masked layout).
/// - along_k: as ends, but of the rows that are summed over: k of A and B.
/// - slots: number s is the group of row s of D, which reads row s / pitch of A. A row with another number,
///   such as -1, belongs to no group. For few rows, which need no sorting: each reads its group's B by
///   itself.
enum class GroupKind : u8 { none, ends, counts, along_k, slots };
SLUICE_HD constexpr const char* name_of(GroupKind kind) {
  switch (kind) {
    case GroupKind::none: return "none";
    case GroupKind::ends: return "ends";
    case GroupKind::counts: return "counts";
    case GroupKind::along_k: return "along_k";
    case GroupKind::slots: return "slots";
  }
  return "?";
}

/// True if rows of A and D belong to groups.
SLUICE_HD constexpr bool groups_rows(GroupKind kind) {
  return kind == GroupKind::ends || kind == GroupKind::counts || kind == GroupKind::slots;
}

/// The groups of a problem, Problem::batch of them.
struct Groups {
  GroupKind kind = GroupKind::none;
  int pitch = 1;  // a number of rows; slots: rows of D per row of A

  constexpr bool operator==(const Groups&) const = default;
};
inline constexpr int kMostGroups = 1024;

/// The part of groups that a kernel is compiled for.
struct GroupConfig {
  GroupKind kind = GroupKind::none;
  int most = 0;  // groups for which shared memory has room

  constexpr bool operator==(const GroupConfig&) const = default;
};

/// Ints of a table for `most` groups.
SLUICE_HD constexpr int group_table_ints(int most) {
  return 3 * most + 1;
}

struct GroupRows {
  int begin = 0, end = 0;
};

/// The group of a slot, whose number in the table is `number`; -1: none.
SLUICE_HD constexpr int group_of_slot(int number, int groups) {
  return number >= 0 && number < groups ? number : -1;
}

/// The first multiple of `pitch` at or above `row`, at most `total`. Nothing overflows for row <= total.
SLUICE_HD constexpr int next_group_begin(int row, int pitch, int total) {
  const int behind = row - quotient(row, pitch) * pitch;
  if (behind == 0) return row;
  return total - row < pitch - behind ? total : row + (pitch - behind);
}

/// The rows of group `g`, whose number in the table is `number`. `before`: with ends, the largest end of
/// earlier groups, clamped to [0, total]. Not for slots, which lie anywhere.
SLUICE_HD constexpr GroupRows group_rows_of(GroupKind kind, int pitch, int total, int g, int number,
                                            int before) {
  if (kind == GroupKind::counts) {
    const int begin = g <= quotient(total, pitch) ? g * pitch : total;  // else the product could overflow
    return {begin, begin + min(max(number, 0), min(pitch, total - begin))};
  }
  const int begin = next_group_begin(before, pitch, total);
  return {begin, max(begin, min(max(number, 0), total))};
}

/// The table as roles read it, in an array of ints: first row and end of each group, and the tiles along m of
/// all groups before it. `Memory` has get(int) and put(int, int).
template <class Memory>
struct GroupTable {
  Memory memory;
  int most;  // GroupConfig::most

  SLUICE_HD constexpr GroupRows rows(int g) const { return {memory.get(g), memory.get(most + g)}; }
  SLUICE_HD constexpr int tiles_before(int g) const { return memory.get(2 * most + g); }
  SLUICE_HD constexpr void put_rows(int g, const GroupRows& rows) const {
    memory.put(g, rows.begin);
    memory.put(most + g, rows.end);
  }
  SLUICE_HD constexpr void put_tiles_before(int g, int tiles) const { memory.put(2 * most + g, tiles); }

  /// The group with tile `tile` along m, of all groups' tiles in their order. Each step reads three numbers,
  /// which do not depend on each other, and leaves about a quarter of the groups. Groups without tiles are
  /// never found. Requires tile < tiles_before(groups).
  SLUICE_HD constexpr int group_of(int tile, int groups) const {
    int low = 0, high = groups;
    while (high - low > 1) {
      const int width = high - low;
      const int first = low + width / 4, second = low + width / 2, third = low + width - width / 4;
      const bool at_first = tiles_before(first) <= tile, at_second = tiles_before(second) <= tile,
                 at_third = tiles_before(third) <= tile;
      high = at_third ? high : at_second ? third : at_first ? second : first;
      low = at_third ? third : at_second ? second : at_first ? first : low;
    }
    return low;
  }
};

/// How a warp fills a GroupTable: each lane has a run of groups, and the warp scans twice in between.
///   largest = largest_end(lane);  before = largest end of lower lanes (0: none)
///   tiles = put_rows(lane, before);  tiles_before = sum of lower lanes
///   put_tiles(lane, tiles_before)
template <class Numbers, class Memory>
struct GroupScan {
  static constexpr int kLanes = 32;

  GroupKind kind;
  int pitch, total, groups, tile_rows;
  Numbers numbers;  // numbers(g): the table in global memory
  GroupTable<Memory> table;

  SLUICE_HD constexpr int first(int lane) const { return min(lane * run(), groups); }
  SLUICE_HD constexpr int end(int lane) const { return min((lane + 1) * run(), groups); }

  /// Keeps the numbers in the table until put_rows() reads them.
  SLUICE_HD constexpr int largest_end(int lane) const {
    int largest = 0;
    for (int g = first(lane); g < end(lane); ++g) {
      const int number = numbers(g);
      table.put_tiles_before(g, number);
      largest = max(largest, min(number, total));
    }
    return largest;
  }
  SLUICE_HD constexpr int put_rows(int lane, int before) const {
    int tiles = 0;
    for (int g = first(lane); g < end(lane); ++g) {
      const int number = table.tiles_before(g);
      const GroupRows rows = group_rows_of(kind, pitch, total, g, number, before);
      table.put_rows(g, rows);
      tiles += ceil_div(rows.end - rows.begin, tile_rows);
      before = max(before, min(number, total));
    }
    return tiles;
  }
  SLUICE_HD constexpr void put_tiles(int lane, int tiles) const {
    for (int g = first(lane); g < end(lane); ++g) {
      table.put_tiles_before(g, tiles);
      const GroupRows rows = table.rows(g);
      tiles += ceil_div(rows.end - rows.begin, tile_rows);
    }
    if (lane == kLanes - 1) table.put_tiles_before(groups, tiles);
  }

 private:
  SLUICE_HD constexpr int run() const { return ceil_div(groups, kLanes); }
};

}  // namespace sluice
