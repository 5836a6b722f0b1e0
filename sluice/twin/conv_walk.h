// SPDX-License-Identifier: Apache-2.0
// The order in which a load thread traverses a convolution's operands. It is the loaders of device/load
// without their instructions, with the same counters (device/load/pixel_walk.cuh). A and B have separate
// counters.
#pragma once

#include <variant>

#include <sluice/spec/conv_params.h>
#include <sluice/twin/step.h>
#include <sluice/device/pipeline.cuh>

namespace sluice::twin {

using AnyPixelWalk = std::variant<PixelWalk<1>, PixelWalk<2>, PixelWalk<3>>;

class ConvWalk {
 public:
  /// Begins a tile, like the loaders' begin(). Call it once per tile.
  void begin(const KernelConfig& config, const PhasedParams& params, const Tile& tile, int cta_rank);
  /// Return the boxes of A's and B's next k-tile; empty for an operand that is a plain matrix.
  ConvBoxes next_a(const KernelConfig& config, const PhasedParams& params);
  ConvBoxes next_b(const KernelConfig& config, const PhasedParams& params);

 private:
  AnyPixelWalk pixel_;  // position in the im2col operand
  PixelBox box_{};      // the range of pixels that it traverses
  TapWalk taps_a_{}, taps_b_{};
  AtomPlace atoms_[ConvBoxes::kMost]{};
  int atom_count_ = 0;
};

/// Returns the 64 pixels from `row` of `tile` on that a phase's store writes; empty if the config has no
/// phases.
ConvBoxes stored_pixels(const KernelConfig& config, const PhasedParams& params, const Tile& tile, int row);

}  // namespace sluice::twin
