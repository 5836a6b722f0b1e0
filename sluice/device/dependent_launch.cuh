// SPDX-License-Identifier: Apache-2.0
// The steps by which a product's kernel overlaps neighbouring launches in its stream (the contract:
// spec/overlap.h). With the default Overlap every step compiles to nothing.
#pragma once

#include <sluice/device/ptx/sync.cuh>
#include <sluice/device/warm.cuh>

namespace sluice {

template <Overlap kOverlap>
struct DependentLaunch {
  static constexpr bool kWeightsFirst = kOverlap.wait == Wait::weights_first;

  /// Call at the start of the kernel, from one thread of the CTA or from all.
  static SLUICE_DEVICE void begin() {
    if constexpr (kOverlap.trigger == Trigger::at_start) ptx::launch_dependents();
  }
  /// Call from one thread before it waits.
  template <class Params>
  static SLUICE_DEVICE void prefetch(const Params& params) {
    if constexpr (overlaps(kOverlap)) warm_part(params.prefetch);
  }
  /// The PDL wait. Every thread calls it before it reads tokens, their scales or C, and before it writes D.
  static SLUICE_DEVICE void wait() {
    if constexpr (kOverlap.wait != Wait::none) ptx::wait_for_prerequisites();
  }
  /// Waits and fills a ring (warp_ring.cuh). Every thread calls it. Weights are copied before the wait where
  /// the overlap mode allows it, tokens after it.
  template <class Ring, class Copier, class Params>
  static SLUICE_DEVICE void fill(const Ring& ring, Copier& copier, const Params& params) {
    const auto wait_once = [&] {
      if (threadIdx.x == 0) prefetch(params);
      wait();
    };
    if constexpr (kWeightsFirst) {
      ring.fill_in_two([&](u32 stage, int ahead) { copier.copy_weights(stage, ahead); }, wait_once,
                       [&](u32 stage) { copier.copy_tokens(stage); });
    } else {
      wait_once();
      ring.fill([&](u32 stage) { copier.copy(stage); });
    }
  }
  /// For threads that only load weights: waits only if the overlap mode does not allow early loads
  /// (Wait::first).
  static SLUICE_DEVICE void wait_for_weights() {
    if constexpr (kOverlap.wait == Wait::first) ptx::wait_for_prerequisites();
  }
  /// Call from one thread of the CTA once its last load is issued.
  static SLUICE_DEVICE void loaded() {
    if constexpr (kOverlap.trigger == Trigger::after_loads) ptx::launch_dependents();
  }
  /// Call from one thread after loaded(). Not inside a loop that is short of registers, because it takes ten.
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
