// SPDX-License-Identifier: Apache-2.0
// The set of states that an exploration has seen, kept as 64-bit hashes. With 10^7 states the chance of a
// collision is about 3e-6. A collision could hide a state, but never cause a false failure. Used by
// explore.cc.
#pragma once

#include <xxhash.h>

#include <vector>

#include <sluice/twin/simulator.h>

namespace sluice::twin {

class StateSet {
 public:
  StateSet() : slots_(1 << 12, 0) {}

  /// Inserts a state; returns true if it is new.
  bool insert(const State& state) {
    if (2 * size_ >= slots_.size()) grow();
    return put(XXH3_64bits(state.data(), state.size() * sizeof(state[0])) | 1);  // 0 is a free slot
  }
  i64 size() const { return static_cast<i64>(size_); }

 private:
  bool put(u64 hash) {
    const size_t mask = slots_.size() - 1;
    for (size_t i = hash >> 1 & mask;; i = (i + 1) & mask) {
      if (slots_[i] == hash) return false;
      if (slots_[i] != 0) continue;
      slots_[i] = hash;
      ++size_;
      return true;
    }
  }
  void grow() {
    std::vector<u64> old(slots_.size() * 2, 0);
    old.swap(slots_);
    size_ = 0;
    for (u64 hash : old)
      if (hash != 0) put(hash);
  }

  std::vector<u64> slots_;
  size_t size_ = 0;
};

}  // namespace sluice::twin
