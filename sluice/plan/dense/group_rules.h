// SPDX-License-Identifier: Apache-2.0
// The planner leaves out some clusters and widths for rows of groups, and walks their tiles in one way. A
// caller who asks for a tile, a cluster or a walk gets it. The measurements are in docs/findings/experts.md.
#pragma once

#include <sluice/kernels/registry.h>

namespace sluice {

/// Rows of tiles in a band of groups, whose number of rows is not known. Tiles that share a part of B, which
/// comes from HBM, run side by side, and the 132 of a wave are about as many columns as rows. It lost 1.1 %
/// at most to the best walk of the same kernel, of ten tuned products with 128 to 1024 rows per group. Bands
/// of one row lost 0.2 to 13 %.
inline constexpr int kBandOfGroups = 8;

/// Returns whether rows of groups would be summed in another order than without clusters along k. Then the
/// bits of a row would depend on how many rows there are, because that decides which plan is best
/// (docs/decisions/0041-rows-of-groups-are-summed-in-one-order.md).
inline bool reorders_sums_of_groups(const Problem& p, const KernelConfig& c) {
  return has_groups(p) && c.cluster.k > 1;
}

/// Returns whether groups would be summed in another order, or lose by this cluster: with block scales, its
/// CTAs share rows of A. Of eight tuned products with 128 rows per group and more none gained from it, and
/// six lost 2 to 8 % in the same walk. With fewer rows there is little to share.
inline bool is_slow_cluster_of_groups(const Problem& p, const KernelConfig& c) {
  return reorders_sums_of_groups(p, c) || (has_groups(p) && is_block_scaled(c.epilogue) && c.cluster.n > 1);
}

/// Returns whether groups lose by the tile's width:
/// - Without block scales, two waves of rows per warpgroup, and a width between multiples of 64: ptxas
///   serialised products of such kernels, which took up to twice as long. What replaced them was not timed.
/// - With block scales, columns in parts of blocks. In twelve tuned products with few rows, 96, 192 and 224
///   lost 2.5 to 4 % in the mean to the best, 128 and 256 lost 1.3 %. In two of them 160 gained 0.5 and 2 %.
inline bool is_slow_width_of_groups(const Problem& p, const KernelConfig& c) {
  if (!has_groups(p)) return false;
  if (!is_block_scaled(c.epilogue)) return waves(c) > 1 && c.tile.n % kMnBlock != 0;
  return c.tile.n % kScaleBlock != 0 && kScaleBlock % c.tile.n != 0;
}

}  // namespace sluice
