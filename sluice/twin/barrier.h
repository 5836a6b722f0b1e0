// SPDX-License-Identifier: Apache-2.0
// mbarrier as PTX defines it (PTX ISA, "Parallel Synchronization: mbarrier"): pending arrivals, pending
// bytes, phase. A wait names the parity of a phase and passes if that phase is not the current one. So a wait
// for parity 1 passes on a new barrier, and a waiter that is two phases late is not detected. Used by
// Simulator.
#pragma once

#include <sluice/spec/base.h>

namespace sluice::twin {

/// A view of the two words of a Simulator state that hold one barrier.
struct Barrier {
  u32& word;  // phase << 8 | pending arrivals
  u32& tx;    // pending bytes, two's complement: a peer's bytes may arrive before the expect
  int count;  // arrivals per phase

  static constexpr int kMaxTx = (1 << 20) - 1;

  int phase() const { return static_cast<int>(word >> 8); }
  int pending() const { return static_cast<int>(word & 0xff); }
  int pending_bytes() const { return static_cast<int>(tx); }
  bool passes(u32 parity) const { return (word >> 8 & 1) != parity; }

  void init() { word = static_cast<u32>(count), tx = 0; }
  /// Returns false for more arrivals than are pending, which PTX leaves undefined.
  bool arrive(int arrivals) {
    if (arrivals > pending()) return false;
    word -= static_cast<u32>(arrivals);
    complete();
    return true;
  }
  /// Adds expected bytes (positive) or arrived bytes (negative). Returns false outside the counter's range.
  bool add_bytes(int bytes) {
    const int sum = pending_bytes() + bytes;
    if (sum > kMaxTx || sum < -kMaxTx) return false;
    tx = static_cast<u32>(sum);
    complete();
    return true;
  }

 private:
  void complete() {
    if (pending() == 0 && tx == 0) word = static_cast<u32>(phase() + 1) << 8 | static_cast<u32>(count);
  }
};

}  // namespace sluice::twin
