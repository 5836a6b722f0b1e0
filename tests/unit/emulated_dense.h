// SPDX-License-Identifier: Apache-2.0
// Emulates a correct kernel of dense products on the host: sums truncated as by the tensor core, promoted or
// not, in one slice or several. Shows without a GPU how far correct results are from the error bounds.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include <sluice/kernels/verify_model.h>

#include "emulated_core.h"

namespace sluice::test {

/// How k is divided. Slices are adjacent ranges of k or, if `dealt`, consist of every count-th k-tile, as for
/// teams of plain kernels. The sums of the slices are added in fp32.
struct Parts {
  int count = 1;
  bool dealt = false;
};

/// A row of A and a column of B as numbers. `scales`: their common scale for each 128 of k; empty: none.
struct Factors {
  std::span<const double> a, b;
  std::span<const float> scales;
};

class EmulatedDense {
 public:
  explicit EmulatedDense(const Problem& p) : p_(p), core_(is_fp8(p.a.type) ? kByteCore : kHalfCore) {}

  /// Returns the sum over k as the kernel computes it, slice by slice.
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
