// SPDX-License-Identifier: Apache-2.0
// The steps of a tile of 64 outputs x 128 k, known at compile time. A unit is the codes of 64 k (32 if groups
// are as short), or, with stored zeros, ones in their place: a group's codes, then its ones. A step is a unit
// times `kWidth` of the tile's tokens: with many tokens each unit has two.
#pragma once

#include <sluice/device/mixed/byte_place.cuh>

namespace sluice::mixed {

template <ByteConfig kConfig>
struct ByteSteps {
  using S = ByteShape<kConfig>;
  static constexpr int kHalves = S::kTokens > 32 ? 2 : 1, kWidth = S::kTokens / kHalves;
  static constexpr int kGroups = max(tile_groups(kConfig.weights), 1);
  static constexpr int kUnits = kGroups == 1 ? 2 : 1;       // of codes, in a group
  static constexpr int kKinds = S::kStoredZeros ? 2 : 1;    // codes, ones
  static constexpr int kProducts = 4 / (kGroups * kUnits);  // of 32 k, in a step
  static constexpr int kGroupSteps = kKinds * kUnits * kHalves, kTileSteps = kGroups * kGroupSteps;
  // Tiles that are multiplied without a break: products of at least eight steps hide each other's ends.
  static constexpr int kRun = max(1, 8 / kTileSteps);

  // Of step `step`, counted from the first tile of a run.
  static constexpr SLUICE_DEVICE int tile(int step) { return step / kTileSteps; }
  static constexpr SLUICE_DEVICE int half(int step) { return step % kHalves; }
  static constexpr SLUICE_DEVICE int unit(int step) { return step / kHalves % kUnits; }
  static constexpr SLUICE_DEVICE int group(int step) { return step % kTileSteps / kGroupSteps; }
  static constexpr SLUICE_DEVICE bool is_ones(int step) { return step / (kHalves * kUnits) % kKinds == 1; }
  static constexpr SLUICE_DEVICE int product(int step) {
    return (group(step) * kUnits + unit(step)) * kProducts;
  }
  /// Which of the two sets of partial sums.
  static constexpr SLUICE_DEVICE int slot(int step) { return (kHalves == 2 ? step : step / kUnits) % 2; }
  /// Are the set's sums begun, or complete, with this step?
  static constexpr SLUICE_DEVICE bool begins(int step) { return unit(step) == 0; }
  static constexpr SLUICE_DEVICE bool ends(int step) { return unit(step) == kUnits - 1; }
  /// Is it the first with these codes?
  static constexpr SLUICE_DEVICE bool opens(int step) { return half(step) == 0 && !is_ones(step); }
  /// Behind this step's products nobody needs the tile's words.
  static constexpr SLUICE_DEVICE bool is_last_codes(int step) {
    return opens(step) && product(step) + kProducts == 4;
  }
};

}  // namespace sluice::mixed
