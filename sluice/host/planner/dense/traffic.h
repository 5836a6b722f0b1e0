// SPDX-License-Identifier: Apache-2.0
// How many bytes a configuration moves: out of L2 into the SMs, and out of HBM into L2. The latter depend on
// the order in which tiles are walked. Arithmetic only; the times are in cost_model.h.
// Called by cost_model.cc, and by candidates.cc to choose the order.
#pragma once

#include <sluice/plan.h>

namespace sluice {

struct Traffic {
  double l2_bytes = 0;    // read by the SMs, all tiles together; a multicast byte counts once
  double hbm_bytes = 0;   // read and written
  double wave_bytes = 0;  // bytes of A and B that one wave touches: decides between equal orders
  /// Bytes that a second cluster asks for while they are on their way from HBM. Each operand counts once,
  /// twice for clusters along k, and not at all for lone CTAs in step, which ask at one time.
  double repeated_bytes = 0;
};

/// Are all CTAs alone in their clusters, and at about the same place of k? In a single wave they stay there.
bool are_in_step(const Problem& problem, const KernelConfig& config, const WorkSplit& split);

/// Bytes of A and B (real rows, no padding) that one k-tile of one CTA reads from L2, on average.
double l2_bytes_per_k_tile(const Problem& problem, const KernelConfig& config);
/// Bytes of rows among those that lie in two lines of L2 and are asked for twice. Strides that are no whole
/// lines make such rows. So do widths of MN-major B between whole lines: half of the tiles begin inside of a
/// line. Of a gathered operand all rows count if some do: measured so (docs/findings/convolutions.md).
double split_bytes_per_k_tile(const Problem& problem, const KernelConfig& config);
/// Bytes that come into the SM for one k-tile: all of its tile, also what others of the cluster ask for. A
/// row of a convolution that lies in two lines comes as two.
double port_bytes_per_k_tile(const Problem& problem, const KernelConfig& config);

/// `problem` has its strides filled in.
Traffic traffic_of(const Problem& problem, const KernelConfig& config, const WorkSplit& split,
                   const DeviceInfo& device);

}  // namespace sluice
