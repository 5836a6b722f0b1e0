// SPDX-License-Identifier: Apache-2.0
// The main loop of a math warpgroup: a tile of 64 outputs x 128 k after the other, in steps. A step makes
// e4m3 registers of the codes of 64 k (32 if groups are as short), while the products of the step before
// run, and issues its own. Products of one group, at most 128 k, are added up by the tensor core; then they
// are multiplied by the group's scales and added in fp32. With stored zeros each group has a second step:
// the tokens' own sums, a product with ones, times -scale * (zero - 8).
#pragma once

#include <sluice/device/mixed/byte_tile.cuh>
#include <sluice/device/pipeline.cuh>

namespace sluice::mixed {

template <ByteConfig kConfig>
class ByteProducts {
  using S = ByteShape<kConfig>;
  using Tile = ByteTile<kConfig>;
  using Instruction = ptx::WgmmaRs<DType::e4m3, S::kTokens>;
  static constexpr int kGroups = Tile::kGroups;
  static constexpr int kGroupSteps = kGroups == 1 ? 2 : 1;  // of codes
  static constexpr int kProducts = kGroups == 4 ? 1 : 2;    // of 32 k, in a step
  static constexpr int kKinds = S::kStoredZeros ? 2 : 1;    // of products: codes, ones
  static constexpr int kSteps = kGroups * kGroupSteps * kKinds;
  // Two sets of partial sums hide the sums of one step behind the products of the next; registers for many
  // tokens are for one, and the other warpgroups of the SM hide them.
  static constexpr int kSets = S::kTokens <= 32 && kGroups > 1 ? 2 : 1;

 public:
  using Sums = float[S::kTokens / 2];

  SLUICE_DEVICE ByteProducts(const ByteParams& params, const BytePlace<kConfig>& at) : at_(at), tile_(params, at) {}

  /// All tiles of the warpgroup. On return nothing is in flight.
  SLUICE_DEVICE void run(Sums& sums) {
    ring_.stage = at_.k_group();
    const int first = at_.k_group();
    if (first < at_.count) load();
    convert<0>();
#pragma unroll 1
    for (int i = first; i < at_.count; i += S::kKGroups) {
      Sums partial[kSets];  // of this tile alone: else ptxas would wait after every product
      const int stage = ring_.stage;
      const u64 tokens = ptx::smem_descriptor(at_.x_stage(stage), 16, 8 * 128);
      advance();
      walk<0>(partial, sums, tokens, i + S::kKGroups < at_.count);
      if (at_.lane() == 0) ptx::mbarrier_arrive(at_.empty(stage));
    }
  }

 private:
  // The steps of a tile are those of its groups; a group's are its codes' and then the ones'.
  static constexpr SLUICE_DEVICE int group_of(int step) { return step / (kGroupSteps * kKinds); }
  static constexpr SLUICE_DEVICE bool is_ones(int step) { return step % (kGroupSteps * kKinds) >= kGroupSteps; }
  static constexpr SLUICE_DEVICE int first_product(int step) {
    return (group_of(step) * kGroupSteps + step % kGroupSteps) * kProducts;
  }

  /// Step by step: products are issued; behind them the sums of the step before are added, where they have
  /// registers of their own, and the next step's codes are converted, the last time the next tile's first.
  template <int kStep>
  SLUICE_DEVICE void walk(Sums (&partial)[kSets], Sums& sums, u64 tokens, bool has_next) {
    if constexpr (kStep < kSteps) {
      constexpr bool kLast = kStep + 1 == kSteps;
      factors_[kStep % kSets] = tile_.template factors<group_of(kStep), is_ones(kStep)>();
      issue<kStep>(partial[kStep % kSets], tokens);
      if constexpr (kLast)
        if (has_next) load();
      if constexpr (kStep > 0 && (kSets == 2 || !kEnds<kStep - 1>)) ptx::wgmma_wait_group<1>();
      if constexpr (kStep > 0 && kSets == 2) add<kStep - 1>(partial, sums);
      convert<kLast ? 0 : kStep + 1>();
      if constexpr (kLast || (kSets == 1 && kEnds<kStep>)) {
        ptx::wgmma_wait_group<0>();
        add<kStep>(partial, sums);
      }
      walk<kStep + 1>(partial, sums, tokens, has_next);
    }
  }
  /// Are the group's products, or its tokens' sums, complete with the step?
  template <int kStep>
  static constexpr bool kEnds = (kStep + 1) % kGroupSteps == 0;
  SLUICE_DEVICE void advance() {
    ring_.stage += S::kKGroups;
    if (ring_.stage >= S::kStages) {
      ring_.stage -= S::kStages;
      ring_.phase ^= 1;
    }
  }
  /// The tile at ring_.
  SLUICE_DEVICE void load() {
    ptx::mbarrier_wait_parity(at_.full(ring_.stage), ring_.phase);
    tile_.load(ring_.stage);
  }

  template <int kStep>
  SLUICE_DEVICE void convert() {
    if constexpr (!is_ones(kStep)) {
#pragma unroll
      for (int i = 0; i < kProducts; ++i) {
        const int q = first_product(kStep) + i;
        tile_.expand(q, a_[q]);
      }
    }
  }
  template <int kStep>
  SLUICE_DEVICE void issue(Sums& partial, u64 tokens) {
    constexpr u32 kOnes[4] = {kByteOnes, kByteOnes, kByteOnes, kByteOnes};
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < kProducts; ++i) {
      const int q = first_product(kStep) + i;
      const bool more = i > 0 || (kStep % kGroupSteps != 0);
      if constexpr (is_ones(kStep))
        Instruction::mma(partial, kOnes, tokens + 2 * q, more);
      else
        Instruction::mma(partial, a_[q], tokens + 2 * q, more);
    }
    ptx::wgmma_commit_group();
  }
  template <int kStep>
  SLUICE_DEVICE void add(Sums (&partial)[kSets], Sums& sums) const {
    ptx::pin_registers(partial[kStep % kSets]);
    const RowPair f = factors_[kStep % kSets];
#pragma unroll
    for (int i = 0; i < S::kTokens / 2; ++i)
      sums[i] += (i % 4 < 2 ? f.upper : f.lower) * partial[kStep % kSets][i];
  }

  const BytePlace<kConfig>& at_;
  Tile tile_;
  RingPosition ring_;
  RowPair factors_[kSets];  // of the steps in flight
  u32 a_[4][4];
};

}  // namespace sluice::mixed
