// SPDX-License-Identifier: Apache-2.0
// The number of cluster tiles of a problem, and of clusters that fit on a GPU. These count in 64 bits or
// double, so that any size a caller asks for is safe; spec/work_split.h counts in int once sizes are known to
// fit.
#pragma once

#include <vector>

#include <algorithm>

#include <sluice/plan.h>
#include <sluice/plan/limits.h>
#include <sluice/spec/config.h>

namespace sluice {

/// Return the number of cluster tiles along m, and along n, of the product that the config multiplies: with
/// swapped operands that of product_of().
constexpr i64 grid_rows(const Problem& p, const KernelConfig& c) {
  return ceil_div(p.m, i64{c.tile.m} * c.cluster.m);
}
constexpr i64 grid_columns(const Problem& p, const KernelConfig& c) {
  return ceil_div(p.n, i64{c.tile.n} * c.cluster.n);
}
/// Returns the number of all cluster tiles, batch included. In double: the product of three 31-bit numbers
/// does not fit in 64 bits.
constexpr double grid_tiles(const Problem& p, const KernelConfig& c) {
  return static_cast<double>(grid_rows(p, c)) * static_cast<double>(grid_columns(p, c)) *
         static_cast<double>(p.batch);
}

/// Returns whether the kernel can count its cluster tiles in int. Persistent clusters step past the last
/// tile, which must fit too. Plain kernels have one cluster per tile and take no step.
constexpr bool can_count_tiles(const Problem& p, const KernelConfig& c, i64 clusters) {
  return grid_tiles(p, c) <= static_cast<double>(kMaxInt - (is_plain(c.schedule) ? 0 : clusters));
}

/// Returns the most tiles along m that groups can have, whatever the table says.
constexpr i64 most_group_tiles(const Problem& p, int tile_rows) {
  if (by_slots(p)) return p.m;
  return std::min(p.m, p.m / tile_rows + p.batch);
}
/// Returns the batch of products that groups are likely to be, for estimates: rows are spread over groups at
/// random, so few rows leave some groups empty. The table itself is on the device, and may change. Returns
/// other problems as they are.
Problem expected(const Problem& p);

/// Returns a table of groups of equal sizes, for measurements: whole pitches, of which the last may be cut
/// off.
std::vector<int> even_table(const Problem& p);

/// Returns how many clusters of `ctas` CTAs are resident at once, with one CTA per SM. Large clusters leave
/// SMs of some GPCs idle. As many clusters of 3 fit as of 4, and as many of 5 to 7 as of 8.
constexpr int clusters_at_once(int ctas, const DeviceInfo& device) {
  return ctas <= 1   ? device.sm_count
         : ctas == 2 ? device.max_clusters_of_2
         : ctas <= 4 ? device.max_clusters_of_4
                     : device.max_clusters_of_8;
}

}  // namespace sluice
