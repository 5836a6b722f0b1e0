// SPDX-License-Identifier: Apache-2.0
// The bytes that a configuration moves: from L2 into the SMs, and from HBM into L2. The latter depend on the
// raster. Pure arithmetic; the times are in cost_model.h. Called by cost_model.cc, and by candidates.cc to
// choose the raster.
#pragma once

#include <sluice/plan.h>

namespace sluice {

struct Traffic {
  double l2_bytes = 0;   // read by all SMs for all tiles; a multicast byte counts once
  double hbm_bytes = 0;  // read and written
  // Bytes of A and B that one wave touches; of rasters with equal HBM bytes the least is taken.
  double wave_bytes = 0;
  /// Bytes that another cluster requests while HBM is still delivering them. Each operand counts once, twice
  /// for clusters along k. CTAs without a cluster that run in step request at the same time and count
  /// nothing.
  double repeated_bytes = 0;
};

/// Returns whether all CTAs are without a cluster and at about the same k. In a single wave they stay so.
bool are_in_step(const Problem& problem, const KernelConfig& config, const WorkSplit& split);

/// Returns the mean bytes of A and B (without padding rows) that one CTA reads from L2 per k-tile.
double l2_bytes_per_k_tile(const Problem& problem, const KernelConfig& config);
/// Returns how many of those bytes are in rows that span two L2 lines; they are requested twice. Causes are
/// strides that are not whole lines, and widths of MN-major B that are not whole lines: half of the tiles
/// then start inside a line. If some rows of a gathered operand span two lines, all count, as measurements
/// show (docs/findings/convolutions.md).
double split_bytes_per_k_tile(const Problem& problem, const KernelConfig& config);
/// Returns the bytes that arrive at the SM per k-tile: those of its whole tile, including what other CTAs of
/// the cluster requested. A row of a convolution that spans two lines arrives as two.
double port_bytes_per_k_tile(const Problem& problem, const KernelConfig& config);

/// Returns the traffic of a launch. `problem` has its strides filled in.
Traffic traffic_of(const Problem& problem, const KernelConfig& config, const WorkSplit& split,
                   const DeviceInfo& device);

}  // namespace sluice
