// SPDX-License-Identifier: Apache-2.0
// Constants derived from a wide config, a CTA's place in its cluster, its tiles, and its barriers.
#pragma once

#include <sluice/spec/wide.h>
#include <sluice/device/math/weight_fragments.cuh>
#include <sluice/device/pipeline.cuh>
#include <sluice/device/ptx/mbarrier.cuh>
#include <sluice/device/ptx/sync.cuh>

namespace sluice::packed {

template <WideConfig kConfig>
struct WideShape {
  static constexpr int kTokens = kConfig.tokens;
  static constexpr int kXStages = kConfig.x_stages, kWStages = kConfig.w_stages;
  static constexpr int kXBytes = x_stage_bytes(kConfig), kWBytes = w_stage_bytes(kConfig);
  static constexpr int kTileBytes = tile_bytes(kConfig.weights);
  static constexpr int kGroup = kConfig.weights.group;
  static constexpr int kScaleSize = bytes_of(kConfig.weights.scale);
  static constexpr bool kStoredZeros = kConfig.weights.zero == ScaleZero::per_group;
  using Weights = WeightFragments<kConfig.weights.type, kConfig.x, kConfig.weights.zero>;
};

struct WideTile {
  int token, row;  // first ones of the CTA
};

template <WideConfig kConfig>
struct WidePlace {
  using S = WideShape<kConfig>;
  u32 smem;
  int role;               // warpgroup: 0 loads, the others multiply; known to the compiler as uniform
  int n_rank;             // rank in the cluster
  int first_index, step;  // this cluster's tiles in the list

  SLUICE_DEVICE WidePlace(const WideParams& params, u32 base) : smem(base) {
    constexpr int kCluster = cluster_size(kConfig);
    const int cta = static_cast<int>(blockIdx.x);
    role = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
    n_rank = cta % kCluster;
    first_index = cta / kCluster;
    step = static_cast<int>(gridDim.x) / kCluster;
  }

  /// Tiles are listed in bands of token tiles, so that those that run at the same time share weights and
  /// tokens in L2.
  SLUICE_DEVICE WideTile tile(const WideParams& params, int index) const {
    const int band = index / (params.band * params.row_tiles), first = band * params.band;
    const int height = min(params.band, params.token_tiles - first),
              in_band = index - first * params.row_tiles;
    return {(first + in_band % height) * S::kTokens,
            (in_band / height * kConfig.cluster_n + n_rank) * kWideRows};
  }
  /// The math warpgroup's strip among the CTA's rows, and a thread's place in it.
  SLUICE_DEVICE int group() const { return role - 1; }
  static SLUICE_DEVICE int thread() { return static_cast<int>(threadIdx.x) % 128; }
  static SLUICE_DEVICE int block() { return thread() / 32; }
  static SLUICE_DEVICE int lane() { return thread() % 32; }

  static SLUICE_DEVICE int tiles(const WideParams& params) { return params.token_tiles * params.row_tiles; }

  SLUICE_DEVICE u32 x_stage(int stage) const { return smem + stage * S::kXBytes; }
  SLUICE_DEVICE u32 w_stage(int stage) const { return smem + w_ring_offset(kConfig) + stage * S::kWBytes; }
  SLUICE_DEVICE u32 x_full(int stage) const { return barrier(stage); }
  SLUICE_DEVICE u32 x_empty(int stage) const { return barrier(S::kXStages + stage); }
  SLUICE_DEVICE u32 w_full(int stage) const { return barrier(2 * S::kXStages + stage); }
  SLUICE_DEVICE u32 w_empty(int stage) const { return barrier(2 * S::kXStages + S::kWStages + stage); }

 private:
  SLUICE_DEVICE u32 barrier(int index) const { return smem + barrier_offset(kConfig) + 8 * index; }
};

}  // namespace sluice::packed
