// SPDX-License-Identifier: Apache-2.0
// Partial sums of one math warpgroup in global memory, in fragment order: vector v of thread t is float4
// number v * 128 + t of the slot. So each access of a warp covers 512 contiguous bytes. Warps whose rows are
// outside the matrix write and read nothing.
#pragma once

#include <sluice/spec/config.h>
#include <sluice/device/math/wgmma_ss.cuh>
#include <sluice/device/ptx/global.cuh>

namespace sluice {

/// Stores the first kOwn of the kN columns of the accumulator.
template <int kWaves, int kN, int kOwn>
struct PartialSlot {
  static constexpr int kVectors = kOwn / 8;  // vectors of a thread in one wave
  static constexpr int kVectorFloats = kWarpgroupThreads * 4;
  // Loads in flight: enough to hide L2's latency, and few enough to fit in registers with the accumulator.
  static constexpr int kInFlight = 8;
  static constexpr int kBatch = min(kVectors, kInFlight);
  static constexpr int kPeersAtOnce = max(1, kInFlight / kBatch);

  /// `slot`: address of this thread's first vector. `live_rows`: rows inside the matrix, from the warp's
  /// first row on.
  static SLUICE_DEVICE void write(const Accumulator<kWaves, kN>& sums, float* slot, int live_rows) {
#pragma unroll
    for (int wave = 0; wave < kWaves; ++wave) {
      if (live_rows <= wave * kWaveRows) return;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const float* from = &sums.values[wave][4 * v];
        ptx::store_global(slot + (wave * kVectors + v) * kVectorFloats, {from[0], from[1], from[2], from[3]});
      }
    }
  }

  /// Adds up the slots of all peers in their order. `pitch`: floats from one slot to the next.
  static SLUICE_DEVICE void sum(Accumulator<kWaves, kN>& sums, const float* slot, int pitch, int peers,
                                int live_rows) {
#pragma unroll
    for (int wave = 0; wave < kWaves; ++wave) {
      if (live_rows <= wave * kWaveRows) return;
#pragma unroll
      for (int first = 0; first < kVectors; first += kBatch)
        sum_batch(sums.values[wave], first, slot + wave * kVectors * kVectorFloats, pitch, peers);
    }
  }

 private:
  static SLUICE_DEVICE void sum_batch(float (&sums)[kN / 2], int first, const float* slot, int pitch,
                                      int peers) {
    const float* at = slot + first * kVectorFloats;
    for (int peer = 0; peer < peers; peer += kPeersAtOnce) {
      ptx::Float4 loaded[kPeersAtOnce][kBatch];
#pragma unroll
      for (int i = 0; i < kPeersAtOnce; ++i)
#pragma unroll
        for (int v = 0; v < kBatch; ++v)
          if (peer + i < peers && first + v < kVectors)
            loaded[i][v] = ptx::load_global(at + i64{pitch} * (peer + i) + v * kVectorFloats);
#pragma unroll
      for (int i = 0; i < kPeersAtOnce; ++i)
#pragma unroll
        for (int v = 0; v < kBatch; ++v)
          if (peer + i < peers && first + v < kVectors)
            add(&sums[4 * (first + v)], loaded[i][v], peer + i == 0);
    }
  }
  static SLUICE_DEVICE void add(float* sums, const ptx::Float4& v, bool fresh) {
    sums[0] = fresh ? v.x : sums[0] + v.x;
    sums[1] = fresh ? v.y : sums[1] + v.y;
    sums[2] = fresh ? v.z : sums[2] + v.z;
    sums[3] = fresh ? v.w : sums[3] + v.w;
  }
};

}  // namespace sluice
