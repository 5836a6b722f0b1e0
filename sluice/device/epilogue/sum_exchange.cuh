// SPDX-License-Identifier: Apache-2.0
// The exchange of partial sums among CTAs of a cluster along k. Each CTA has the sums of one slice of k for
// all columns; afterwards it has the sums over all of k for its own columns. Sums are sent with st.async,
// which writes to a peer's shared memory and counts the bytes on the peer's barrier, so that no fence is
// needed.
// Buffer of a math group: [sender][wave][8 columns][thread] float4, in fragment order. Warps whose rows are
// outside the matrix send and read nothing.
#pragma once

#include <sluice/spec/smem_layout.h>
#include <sluice/device/math/wgmma_ss.cuh>
#include <sluice/device/ptx/cluster_memory.cuh>

namespace sluice {

template <KernelConfig kConfig>
struct SumExchange {
  using Sums = Accumulator<waves(kConfig), kConfig.tile.n>;
  static constexpr int kPeers = kConfig.cluster.k;
  static constexpr int kVectors = pass_columns(kConfig) / 8;  // vectors of one thread per wave and pass
  static constexpr int kVectorBytes = kWarpgroupThreads * 16;
  static constexpr int kSenderBytes = waves(kConfig) * kVectors * kVectorBytes;

  /// Shared addresses of the buffer and its barrier, the same in every CTA of the cluster.
  struct Place {
    u32 buffer, barrier;
  };

  /// `live_rows`: rows inside the matrix, from the warp's first row on.
  static SLUICE_DEVICE void send(const Sums& sums, int pass, const Place& place, int rank, int live_rows) {
#pragma unroll
    for (int peer = 0; peer < kPeers; ++peer) {
      const u32 buffer = ptx::map_to_cta(place.buffer + rank * kSenderBytes + thread() * 16, peer);
      const u32 barrier = ptx::map_to_cta(place.barrier, peer);
      const int first = peer * own_columns(kConfig) / 8 + pass * kVectors;
#pragma unroll
      for (int wave = 0; wave < waves(kConfig); ++wave) {
        if (live_rows <= wave * kWaveRows) break;
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
          const float* from = &sums.values[wave][4 * (first + v)];
          ptx::store_async(buffer + (wave * kVectors + v) * kVectorBytes,
                           {from[0], from[1], from[2], from[3]}, barrier);
        }
      }
    }
  }

  /// Adds the received sums into the registers of the first columns, whose own sums were sent in this pass or
  /// earlier.
  static SLUICE_DEVICE void receive(Sums& sums, int pass, u32 buffer, int live_rows) {
    const u32 mine = buffer + thread() * 16;
#pragma unroll
    for (int wave = 0; wave < waves(kConfig); ++wave) {
      if (live_rows <= wave * kWaveRows) break;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const u32 at = mine + (wave * kVectors + v) * kVectorBytes;
        float* to = &sums.values[wave][4 * (pass * kVectors + v)];
        ptx::Float4 sum = ptx::load_shared_v4(at);
#pragma unroll
        for (int sender = 1; sender < kPeers; ++sender) {
          const ptx::Float4 more = ptx::load_shared_v4(at + sender * kSenderBytes);
          sum = {sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w};
        }
        to[0] = sum.x, to[1] = sum.y, to[2] = sum.z, to[3] = sum.w;
      }
    }
  }

 private:
  static SLUICE_DEVICE int thread() {
    return threadIdx.x % kWarpgroupThreads;
  }
};

}  // namespace sluice
