// SPDX-License-Identifier: Apache-2.0
// What a right kernel of dense products leaves, step by step in host arithmetic: sums cut as the tensor core
// cuts them, promoted or not, in one part or several. To see how far it is from its bounds without a GPU.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include <sluice/kernels/verify_model.h>

#include "emulated_core.h"

namespace sluice::test {

/// Who multiplies which k: one after the other, slices next to one another, or k-tiles dealt out in turn (the
/// teams of plain kernels). Parts are added up in fp32.
struct Parts {
  int count = 1;
  bool dealt = false;
};

/// One row of A and one of B, as numbers, with the scales of their blocks of 128 of k (empty: none).
struct Factors {
  std::span<const double> a, b;
  std::span<const float> scales;
};

class EmulatedDense {
 public:
  explicit EmulatedDense(const Problem& p) : p_(p), core_(is_fp8(p.a.type) ? kByteCore : kHalfCore) {}

  /// Products in order, of the k that `part` takes, from which its sum is made.
  float sum(const Factors& factors, const Parts& parts) const {
    std::vector<double> terms(factors.a.size());
    for (size_t k = 0; k < terms.size(); ++k) terms[k] = factors.a[k] * factors.b[k];
    float total = 0;
    for (int part = 0; part < parts.count; ++part) {
      const float sum = part_sum(terms, factors, parts, part);
      total = part == 0 ? sum : total + sum;
    }
    return total;
  }

  static constexpr i64 kTile = 128;

 private:
  bool takes(i64 tile, i64 tiles, const Parts& parts, int part) const {
    return (parts.dealt ? tile % parts.count : tile * parts.count / tiles) == part;
  }
  float part_sum(std::span<const double> terms, const Factors& factors, const Parts& parts, int part) const {
    const i64 k = static_cast<i64>(terms.size()), tiles = ceil_div(k, kTile);
    double accumulator = 0;
    float promoted = 0;
    for (i64 tile = 0; tile < tiles; ++tile) {
      if (!takes(tile, tiles, parts, part)) continue;
      const auto block = terms.subspan(static_cast<size_t>(tile * kTile),
                                       static_cast<size_t>(std::min(kTile, k - tile * kTile)));
      if (!is_promoted(p_)) {
        accumulator = core_sum(accumulator, block, core_);
        continue;
      }
      const auto sum = static_cast<float>(core_sum(0.0, block, core_));
      if (factors.scales.empty())
        promoted += sum;
      else
        promoted = std::fmaf(factors.scales[static_cast<size_t>(tile)], sum, promoted);
    }
    return is_promoted(p_) ? promoted : static_cast<float>(accumulator);
  }

  Problem p_;
  CoreBits core_;
};

}  // namespace sluice::test
