// SPDX-License-Identifier: Apache-2.0
// The walks of a load thread through a convolution's operands: the loaders of device/load without their
// instructions, over the same counting (device/load/pixel_walk.cuh). Each operand has a walk of its own.
#pragma once

#include <variant>

#include <sluice/spec/conv_params.h>
#include <sluice/twin/step.h>
#include <sluice/device/pipeline.cuh>

namespace sluice::twin {

using AnyPixelWalk = std::variant<PixelWalk<1>, PixelWalk<2>, PixelWalk<3>>;

class ConvWalk {
 public:
  /// As the loaders' begin(); once a tile.
  void begin(const KernelConfig& config, const PhasedParams& params, const Tile& tile, int cta_rank);
  /// The boxes of A's and of B's next k-tile; those of a matrix are empty.
  ConvBoxes next_a(const KernelConfig& config, const PhasedParams& params);
  ConvBoxes next_b(const KernelConfig& config, const PhasedParams& params);

 private:
  AnyPixelWalk pixel_;  // the gathered operand's
  PixelBox box_{};      // that it walks in
  TapWalk taps_a_{}, taps_b_{};
  AtomPlace atoms_[ConvBoxes::kMost]{};
  int atom_count_ = 0;
};

/// The pixels that a phase's store writes: 64 from `row` of `tile` on. Empty for others.
ConvBoxes stored_pixels(const KernelConfig& config, const PhasedParams& params, const Tile& tile, int row);

}  // namespace sluice::twin
