// SPDX-License-Identifier: Apache-2.0
// Random choices that depend only on a seed, so that each random problem can be made on its own. The only
// generator of random problems: `sluice_lab verify` and tests/gpu use it.
#pragma once

#include <iterator>

#include <sluice/kernels/verify_arith.h>

namespace sluice {

class Dice {
 public:
  explicit Dice(u64 seed) : seed_(seed) {}

  /// Returns a number from 0 to count - 1.
  int below(int count) { return verify::pick(verify::hash(seed_, draw_++) >> 32, count); }
  /// Returns a number from low to high, both included.
  int between(int low, int high) { return low + below(high - low + 1); }
  bool one_in(int count) { return below(count) == 0; }
  template <class List>
  auto any_of(const List& list) {
    return std::begin(list)[below(static_cast<int>(std::size(list)))];
  }

 private:
  u64 seed_;
  u64 draw_ = 0;
};

}  // namespace sluice
