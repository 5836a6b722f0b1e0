// SPDX-License-Identifier: Apache-2.0
// The ring of kernels/byte.cuh as a math warpgroup sees it: of all stages every k_groups-th is its own, and
// barriers say when two load threads have filled one and that it is free again.
#pragma once

#include <sluice/device/mixed/byte_place.cuh>
#include <sluice/device/pipeline.cuh>

namespace sluice::mixed {

template <ByteConfig kConfig>
class ByteRing {
  using S = ByteShape<kConfig>;

 public:
  SLUICE_DEVICE explicit ByteRing(const BytePlace<kConfig>& at) : at_(at) { ring_.stage = at.k_group(); }

  /// Until the next tile has come, the first or any other.
  SLUICE_DEVICE void wait_first() const { wait(); }
  SLUICE_DEVICE void wait() const { ptx::mbarrier_wait_parity(at_.full(ring_.stage), ring_.phase); }
  SLUICE_DEVICE int stage() const { return ring_.stage; }
  SLUICE_DEVICE u32 tokens() const { return at_.x_stage(ring_.stage); }
  SLUICE_DEVICE void advance() {
    ring_.stage += S::kKGroups;
    if (ring_.stage >= S::kStages) {
      ring_.stage -= S::kStages;
      ring_.phase ^= 1;
    }
  }
  /// This warp's products that read the stage have ended.
  SLUICE_DEVICE void release(int stage) const {
    if (at_.lane() == 0) ptx::mbarrier_arrive(at_.empty(stage));
  }

 private:
  const BytePlace<kConfig>& at_;
  RingPosition ring_;  // of the next tile
};

}  // namespace sluice::mixed
