// SPDX-License-Identifier: Apache-2.0
// The main loop of a math warpgroup of kernels/strip.cuh for e4m3 tokens. While the products of one step are
// in flight, the codes of the next become e4m3 registers. With two sets of partial sums, those of the
// previous step are scaled and added in fp32 at the same time. The sets alternate, so that ptxas cannot move
// this work behind the next products, which need the registers.
#pragma once

#include <sluice/device/packed/byte_steps.cuh>
#include <sluice/device/packed/byte_tile.cuh>
#include <sluice/device/pipeline.cuh>

namespace sluice::packed {

template <StripConfig kConfig>
class ByteProducts {
  using S = StripShape<kConfig>;
  using Steps = ByteSteps<kConfig>;
  using Instruction = ptx::WgmmaRs<DType::e4m3, S::kTokens>;
  static constexpr int kSets = Steps::kSets;

 public:
  using Sums = float[S::kTokens / 2];

  SLUICE_DEVICE ByteProducts(const StripParams& params, const StripPlace<kConfig>& at)
      : at_(at), tile_(params, at) {}

  /// Multiplies all tiles of the warpgroup. On return no product is in flight.
  SLUICE_DEVICE void run(Sums& sums) {
#pragma unroll
    for (float& sum : sums) sum = 0.0f;
    constexpr int kStride = S::kKGroups;
    ring_.stage = at_.k_group();
    left_ = max(0, at_.count - at_.k_group() + kStride - 1) / kStride;
    if (left_ > 0) {
      wait();
      load_codes(ring_.stage);
    }
    convert<0>();
#pragma unroll 1
    while (left_ >= Steps::kRun) multiply<Steps::kRun>(sums);
    if constexpr (Steps::kRun > 1) {
#pragma unroll 1
      while (left_ > 0) multiply<1>(sums);
    }
  }

 private:
  /// Multiplies kTiles consecutive tiles; the codes of the first one are already converted.
  template <int kTiles>
  SLUICE_DEVICE void multiply(Sums& sums) {
    Sums partial[kSets];  // local to this call: otherwise ptxas would wait after every product
    step<0, kTiles * Steps::kTileSteps>(partial, sums);
  }

  template <int kStep, int kSteps>
  SLUICE_DEVICE void step(Sums (&partial)[kSets], Sums& sums) {
    if constexpr (kStep < kSteps) {
      constexpr bool kFirst = kStep % Steps::kTileSteps == 0, kLast = kStep + 1 == kSteps;
      if constexpr (kFirst) open_tile();
      if constexpr (kSets == 1 && kStep > 0 && Steps::begins(kStep)) {
        ptx::wgmma_wait_group<0>();
        add<kStep - 1>(partial, sums);
      }
      issue<kStep>(partial[Steps::set(kStep)]);
      if constexpr (kStep > 0 && (kSets == 2 || !Steps::begins(kStep))) ptx::wgmma_wait_group<1>();
      if constexpr (kStep > 0 && kSets == 2) add<kStep - 1>(partial, sums);
      if constexpr (kFirst) {
        if constexpr (kStep > 0) release(before_);
        if constexpr (kSets == 1) tile_.template load_codes<1>(stage_);
        tile_.load_scales(stage_);
      }
      if constexpr (Steps::is_last_codes(kStep)) load_next();
      if constexpr (!Steps::is_ones(kStep + 1)) convert<(kStep + 1) % Steps::kTileSteps>();
      if constexpr (kLast) {
        ptx::wgmma_wait_group<0>();
        add<kStep>(partial, sums);
        release(stage_);
      }
      step<kStep + 1, kSteps>(partial, sums);
    }
  }

  // ---- the ring ----
  SLUICE_DEVICE void wait() const {
    ptx::mbarrier_wait_parity(at_.full(ring_.stage), ring_.phase);
  }
  SLUICE_DEVICE void open_tile() {
    before_ = stage_;
    stage_ = ring_.stage;
    tokens_ = ptx::smem_descriptor(at_.x_stage(stage_), 16, 8 * 128);
    ring_.stage += S::kKGroups;
    if (ring_.stage >= S::kStages) {
      ring_.stage -= S::kStages;
      ring_.phase ^= 1;
    }
    --left_;
  }
  SLUICE_DEVICE void load_next() {
    if (left_ == 0) return;
    wait();
    load_codes(ring_.stage);
  }
  /// Loads both chunks; if registers are short, the second one is loaded later, within the tile.
  SLUICE_DEVICE void load_codes(int stage) {
    tile_.template load_codes<0>(stage);
    if constexpr (kSets == 2) tile_.template load_codes<1>(stage);
  }
  /// Releases the stage after all lanes have read it.
  SLUICE_DEVICE void release(int stage) const {
    __syncwarp();
    if (at_.lane() == 0) ptx::mbarrier_arrive(at_.empty(stage));
  }

  // ---- a step ----
  template <int kStep>
  SLUICE_DEVICE void convert() {
#pragma unroll
    for (int q = Steps::product(kStep); q < Steps::product(kStep) + Steps::kProducts; ++q)
      tile_.expand(q, a_[q]);
  }
  template <int kStep>
  SLUICE_DEVICE void issue(Sums& partial) {
    constexpr u32 kOnes[4] = {kByteOnes, kByteOnes, kByteOnes, kByteOnes};
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < Steps::kProducts; ++i) {
      const int q = Steps::product(kStep) + i;
      const u64 b = tokens_ + 2 * q;
      const bool more = i > 0 || !Steps::begins(kStep);
      if constexpr (Steps::is_ones(kStep))
        Instruction::mma(partial, kOnes, b, more);
      else
        Instruction::mma(partial, a_[q], b, more);
    }
    ptx::wgmma_commit_group();
  }
  template <int kStep>
  SLUICE_DEVICE void add(Sums (&partial)[kSets], Sums& sums) const {
    if constexpr (Steps::ends(kStep)) {
      Sums& from = partial[Steps::set(kStep)];
      ptx::pin_registers(from);
      const RowPair f = tile_.template factors<Steps::group(kStep), Steps::is_ones(kStep)>();
#pragma unroll
      for (int i = 0; i < S::kTokens / 2; ++i) sums[i] += (i % 4 < 2 ? f.upper : f.lower) * from[i];
    }
  }

  const StripPlace<kConfig>& at_;
  ByteTile<kConfig> tile_;
  RingPosition ring_;           // position of the next tile
  int left_ = 0;                // tiles left, that one included
  int stage_ = 0, before_ = 0;  // stages of the current tile and of the previous one
  u64 tokens_ = 0;
  u32 a_[4][4];
};

}  // namespace sluice::packed
