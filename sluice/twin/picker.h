// SPDX-License-Identifier: Apache-2.0
// Picks the next transition of a random interleaving; the same seed gives the same picks on every machine.
// The seed selects one of three strategies:
// - uniform;
// - priorities with a few changes (the PCT scheduler, which finds a bug of depth d with a known probability);
// - bursts, in which one actor continues as long as it can.
// Used by explore.cc and run.cc.
#pragma once

#include <vector>

#include <sluice/twin/simulator.h>

namespace sluice::twin {

/// The splitmix64 generator.
class Random {
 public:
  explicit Random(u64 seed) : state_(seed * 0x9e3779b97f4a7c15u) {}
  u64 next() {
    u64 z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  size_t below(size_t bound) { return static_cast<size_t>(next() % bound); }

 private:
  u64 state_;
};

/// The choices of one interleaving.
class Picker {
 public:
  Picker(u64 seed, int transitions, i64 expected_steps)
      : random_(seed), temper_(static_cast<Temper>(random_.below(3))), expected_steps_(expected_steps) {
    if (temper_ != Temper::priorities) return;
    for (int i = 0; i < transitions; ++i) priority_.push_back(random_.next() >> 1 | u64{1} << 62);
  }

  /// Picks from `enabled`, which is not empty.
  Transition pick(const std::vector<Transition>& enabled) {
    switch (temper_) {
      case Temper::uniform: return enabled[random_.below(enabled.size())];
      case Temper::priorities: return pick_by_priority(enabled);
      case Temper::bursts: return pick_burst(enabled);
    }
    return enabled.front();
  }

 private:
  enum class Temper : u8 { uniform, priorities, bursts };
  static constexpr i64 kChanges = 8;  // expected changes of priorities in one interleaving

  Transition pick_by_priority(const std::vector<Transition>& enabled) {
    Transition best = enabled.front();
    for (Transition t : enabled)
      if (priority_[t] > priority_[best]) best = t;
    if (random_.below(static_cast<size_t>(expected_steps_ / kChanges + 1)) == 0)
      priority_[best] = random_.next() >> 3;  // lower than all initial priorities
    return best;
  }
  Transition pick_burst(const std::vector<Transition>& enabled) {
    constexpr size_t kMeanBurst = 16;
    for (Transition t : enabled)
      if (t == last_ && random_.below(kMeanBurst) != 0) return t;
    return last_ = enabled[random_.below(enabled.size())];
  }

  Random random_;
  Temper temper_;
  i64 expected_steps_;
  std::vector<u64> priority_;
  Transition last_ = -1;
};

}  // namespace sluice::twin
