// SPDX-License-Identifier: Apache-2.0
// The table of groups, filled as device/groups.cuh fills it. See scenario.h.
#include <algorithm>

#include <sluice/twin/scenario.h>

namespace sluice::twin {
namespace {

struct WrittenInts {
  std::vector<int>* values;

  int get(int i) const { return values->at(static_cast<size_t>(i)); }
  void put(int i, int value) const { values->at(static_cast<size_t>(i)) = value; }
};

}  // namespace

GroupInts read_groups(const KernelConfig& config, const Groups& groups, int total,
                      std::span<const int> numbers) {
  GroupInts table{std::vector<int>(static_cast<size_t>(group_table_ints(config.groups.most)))};
  const auto number = [&](int g) { return numbers[static_cast<size_t>(g)]; };
  const GroupScan<decltype(number), WrittenInts> scan{groups.kind,
                                                      groups.pitch,
                                                      total,
                                                      static_cast<int>(numbers.size()),
                                                      group_tile_extent(config),
                                                      number,
                                                      {{&table.values}, config.groups.most}};
  constexpr int kLanes = decltype(scan)::kLanes;
  int largest[kLanes], tiles[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) largest[lane] = scan.largest_end(lane);
  int before = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    tiles[lane] = scan.put_rows(lane, before);
    before = std::max(before, largest[lane]);
  }
  int sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    scan.put_tiles(lane, sum);
    sum += tiles[lane];
  }
  return table;
}

}  // namespace sluice::twin
