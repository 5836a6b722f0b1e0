// SPDX-License-Identifier: Apache-2.0
// The steps of a tile of 64 outputs x 128 k, known at compile time. A step multiplies the codes of 64 k, or
// of 32 k with groups of 32. With stored zeros, additional steps multiply ones by the tokens, to sum these. A
// group's codes come first, then its ones.
#pragma once

#include <sluice/device/packed/strip_place.cuh>

namespace sluice::packed {

template <StripConfig kConfig>
struct ByteSteps {
  using S = StripShape<kConfig>;
  static constexpr int kGroups = max(tile_groups(kConfig.weights), 1);
  static constexpr int kUnits = kGroups == 1 ? 2 : 1;       // steps of codes per group
  static constexpr int kKinds = S::kStoredZeros ? 2 : 1;    // codes, ones
  static constexpr int kProducts = 4 / (kGroups * kUnits);  // products of 32 k per step
  static constexpr int kGroupSteps = kKinds * kUnits, kTileSteps = kGroups * kGroupSteps;
  // With two sets of partial sums, one step's are added while the next step's products run. With more tokens
  // only one set fits in registers; other warpgroups' products run in the meantime.
  static constexpr int kSets = S::kTokens * kKinds <= 32 ? 2 : 1;
  // Tiles that are multiplied in one unrolled sequence, so that two sets can alternate.
  static constexpr int kRun = kSets == 1 ? 1 : max(1, 8 / kTileSteps);

  // Properties of step `step`, counted from the first tile of a sequence.
  static constexpr SLUICE_DEVICE int unit(int step) { return step % kUnits; }
  static constexpr SLUICE_DEVICE int group(int step) { return step % kTileSteps / kGroupSteps; }
  static constexpr SLUICE_DEVICE bool is_ones(int step) { return step / kUnits % kKinds == 1; }
  /// The first product of the step: 0..3 in its tile.
  static constexpr SLUICE_DEVICE int product(int step) {
    return (group(step) * kUnits + unit(step)) * kProducts;
  }
  static constexpr SLUICE_DEVICE int set(int step) { return step / kUnits % kSets; }
  /// True if the set's sums begin with this step, or are complete after it.
  static constexpr SLUICE_DEVICE bool begins(int step) { return unit(step) == 0; }
  static constexpr SLUICE_DEVICE bool ends(int step) { return unit(step) == kUnits - 1; }
  /// True if no later step of the tile needs its code words.
  static constexpr SLUICE_DEVICE bool is_last_codes(int step) {
    return !is_ones(step) && product(step) + kProducts == 4;
  }
};

}  // namespace sluice::packed
