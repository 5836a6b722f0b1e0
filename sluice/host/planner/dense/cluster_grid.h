// SPDX-License-Identifier: Apache-2.0
// How many cluster tiles a problem has, and how many clusters a GPU has room for. Any sizes that a caller may
// ask for are counted; spec/work_split.h counts in int, once they are known to fit.
#pragma once

#include <sluice/host/limits.h>
#include <sluice/plan.h>
#include <sluice/spec/config.h>

namespace sluice {

/// Cluster tiles along m, and along n, of the product that the config multiplies (product_of).
constexpr i64 grid_rows(const Problem& p, const KernelConfig& c) {
  return ceil_div(p.m, i64{c.tile.m} * c.cluster.m);
}
constexpr i64 grid_columns(const Problem& p, const KernelConfig& c) {
  return ceil_div(p.n, i64{c.tile.n} * c.cluster.n);
}
/// All of them. In double: the product of three 31-bit numbers does not fit in 64 bits.
constexpr double grid_tiles(const Problem& p, const KernelConfig& c) {
  return static_cast<double>(grid_rows(p, c)) * static_cast<double>(grid_columns(p, c)) *
         static_cast<double>(p.batch);
}

/// Can the kernel count its cluster tiles, and where clusters walk a list of them, a step past its end, in
/// int? Plain kernels have a cluster for each tile and take no step.
constexpr bool can_count_tiles(const Problem& p, const KernelConfig& c, i64 clusters) {
  return grid_tiles(p, c) <= static_cast<double>(kMaxInt - (is_plain(c.schedule) ? 0 : clusters));
}

/// Are all of a launch's `tiles` dealt out, and each cut into the same number of runs? A split that
/// streams its tail alone walks mostly whole tiles.
constexpr bool cuts_all_alike(const WorkSplit& split, double tiles) {
  return split.streamed > 0 && split.streamed == tiles && split.clusters % split.streamed == 0;
}

/// Clusters of `ctas` CTAs that are resident at once, with one CTA an SM. Larger ones do not fill every GPC.
/// Clusters of 3 are as many as of 4; those of 5 to 7 as many as of 8.
constexpr int clusters_at_once(int ctas, const DeviceInfo& device) {
  return ctas <= 1   ? device.sm_count
         : ctas == 2 ? device.max_clusters_of_2
         : ctas <= 4 ? device.max_clusters_of_4
                     : device.max_clusters_of_8;
}

}  // namespace sluice
