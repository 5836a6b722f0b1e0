// SPDX-License-Identifier: Apache-2.0
// The steps by which a product's kernel overlaps the launches before and behind it (spec/overlap.h has the
// contract). All of them are nothing for the default Overlap.
#pragma once

#include <sluice/device/ptx/sync.cuh>
#include <sluice/device/warm.cuh>

namespace sluice {

template <Overlap kOverlap>
struct DependentLaunch {
  static constexpr bool kWeightsFirst = kOverlap.wait == Wait::weights_first;

  /// First thing, by one thread of the CTA or by all.
  static SLUICE_DEVICE void begin() {
    if constexpr (kOverlap.trigger == Trigger::at_start) ptx::launch_dependents();
  }
  /// By one thread, before it waits.
  template <class Params>
  static SLUICE_DEVICE void prefetch(const Params& params) {
    if constexpr (overlaps(kOverlap)) warm_part(params.prefetch);
  }
  /// Before tokens, their scales and C are read and before D is written, by every thread that does.
  static SLUICE_DEVICE void wait() {
    if constexpr (kOverlap.wait != Wait::none) ptx::wait_for_prerequisites();
  }
  /// Before weights are read, by who does nothing but that.
  static SLUICE_DEVICE void wait_for_weights() {
    if constexpr (kOverlap.wait == Wait::first) ptx::wait_for_prerequisites();
  }
  /// By one thread of the CTA, when the last load is on its way.
  static SLUICE_DEVICE void loaded() {
    if constexpr (kOverlap.trigger == Trigger::after_loads) ptx::launch_dependents();
  }
  /// By one thread, then or soon after. Not in a loop that is short of registers: it takes ten.
  template <class Params>
  static SLUICE_DEVICE void hand_off(const Params& params) {
    if constexpr (overlaps(kOverlap)) warm_part(params.hand_off);
  }

 private:
  static SLUICE_DEVICE void warm_part(const WarmRange& range) {
    warm(range, blockIdx.y * gridDim.x + blockIdx.x, gridDim.x * gridDim.y);
  }
};

}  // namespace sluice
