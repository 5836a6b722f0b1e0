// SPDX-License-Identifier: Apache-2.0
// The main loop of a math warpgroup of kernels/strip.cuh for 16-bit tokens. While products of 64 k are in
// flight, the weights of the next 64 k (codes times scales) become registers. There are two sets of A
// registers; a set is overwritten only after wait_group has retired the products that read it. All products
// add to one accumulator.
#pragma once

#include <sluice/device/packed/half_tile.cuh>
#include <sluice/device/packed/strip_place.cuh>

namespace sluice::packed {

/// The stages of one math warpgroup, every k_groups-th of the CTA's, and the address of its strip's tile in
/// each. Turn 0 is its first stage. If the turn is known at compile time, an address is one addition of a
/// constant.
template <StripConfig kConfig>
class WarpgroupRing {
  using S = StripShape<kConfig>;

 public:
  static constexpr int kTurns = S::kStages / S::kKGroups;

  SLUICE_DEVICE explicit WarpgroupRing(const StripPlace<kConfig>& at)
      : tokens_(ptx::smem_descriptor(at.x_stage(at.k_group()), 16, 8 * 128)),
        tile_(at.w_stage(at.k_group()) + at.strip() * S::kTileBytes),
        full_(at.full(at.k_group())) {}

  static SLUICE_DEVICE int next(int turn) { return turn + 1 == kTurns ? 0 : turn + 1; }

  /// Descriptor of tokens: box `box` (128 bytes of k) of the stage, from byte `begin` of its rows on.
  SLUICE_DEVICE u64 tokens(int turn, int box, int begin) const {
    return tokens_ +
           static_cast<u64>((turn * S::kKGroups * x_stage_bytes(kConfig) + box * S::kBoxBytes + begin) / 16);
  }
  SLUICE_DEVICE u32 tile(int turn) const { return tile_ + turn * S::kKGroups * w_stage_bytes(kConfig); }
  SLUICE_DEVICE u32 full(int turn) const { return full_ + 8 * S::kKGroups * turn; }
  SLUICE_DEVICE u32 empty(int turn) const { return full(turn) + 8 * S::kStages; }

 private:
  u64 tokens_;
  u32 tile_, full_;
};

template <StripConfig kConfig>
class HalfProducts {
  using S = StripShape<kConfig>;
  using Ring = WarpgroupRing<kConfig>;
  using Instruction = ptx::WgmmaRs<kConfig.x, S::kTokens>;

 public:
  using Sums = float[S::kTokens / 2];

  SLUICE_DEVICE HalfProducts(const StripParams& params, const StripPlace<kConfig>& at)
      : params_(params), at_(at), ring_(at) {}

  /// Multiplies all tiles of the warpgroup. On return no product is in flight. `sums` must be uninitialised:
  /// otherwise ptxas would wait after every product.
  SLUICE_DEVICE void run(Sums& sums) {
    left_ = max(0, at_.count - at_.k_group() + S::kKGroups - 1) / S::kKGroups;
    if (left_ > 0)
      multiply(sums);
    else
#pragma unroll
      for (float& sum : sums) sum = 0.0f;
  }

 private:
  SLUICE_DEVICE void multiply(Sums& sums) {
    weights_.begin(params_, at_.strip_in_blob(params_, at_.strip()), at_.block(), at_.lane());
    wait(0, 0);
    load<0>(0);
    convert<0>();
    u32 phase = 0;
#pragma unroll 1
    for (bool first = true; left_ > 0; first = false) {
      pass<0>(phase, first, sums);
      phase ^= 1;
    }
    ptx::wgmma_wait_group<0>();
#pragma unroll
    for (int q = 0; q < 4; ++q) ptx::pin_registers(a_[1][q]);  // the last products read them until here
    ptx::pin_registers(sums);
  }

  /// Handles the turns of one pass over the ring, unrolled, so that stages are known at compile time.
  template <int kTurn>
  SLUICE_DEVICE void pass(u32 phase, bool first, Sums& sums) {
    if constexpr (kTurn < Ring::kTurns) {
      // Loads come before the products that hide their latency, so that ptxas expands some words between
      // these (wide_products.cuh).
      load<1>(kTurn);
      issue<0>(kTurn, kTurn == 0 && first, sums);
      ptx::wgmma_wait_group<1>();
      convert<1>();
      if (kTurn > 0 || !first) release((kTurn + Ring::kTurns - 1) % Ring::kTurns);
      if (--left_ > 0) {
        const int next = Ring::next(kTurn);
        wait(next, next == 0 ? phase ^ 1 : phase);
        load<0>(next);
      }
      issue<1>(kTurn, false, sums);
      ptx::wgmma_wait_group<1>();
      convert<0>();  // after the last tile this converts garbage, which is not used
      if (left_ > 0) pass<kTurn + 1>(phase, first, sums);
    }
  }

  SLUICE_DEVICE void wait(int turn, u32 phase) const {
    ptx::mbarrier_wait_parity(ring_.full(turn), phase);
  }
  /// Releases the stage after all lanes have read it.
  SLUICE_DEVICE void release(int turn) const {
    __syncwarp();
    if (at_.lane() == 0) ptx::mbarrier_arrive(ring_.empty(turn));
  }
  template <int kHalf>
  SLUICE_DEVICE void load(int turn) {
    weights_.template load<kHalf>(ring_.tile(turn), at_.block(), at_.lane());
  }
  template <int kHalf>
  SLUICE_DEVICE void issue(int turn, bool fresh, Sums& sums) {
    ptx::wgmma_fence();
#pragma unroll
    for (int q = 0; q < 4; ++q)
      Instruction::mma(sums, a_[kHalf][q], ring_.tokens(turn, kHalf, 32 * q), q > 0 || !fresh);
    ptx::wgmma_commit_group();
  }
  template <int kHalf>
  SLUICE_DEVICE void convert() {
    weights_.template convert<kHalf>(a_[kHalf]);
  }
  const StripParams& params_;
  const StripPlace<kConfig>& at_;
  Ring ring_;
  HalfTile<kConfig.weights, kConfig.x> weights_;
  int left_ = 0;    // tiles not begun yet
  u32 a_[2][4][4];  // registers of even and of odd 64 k
};

}  // namespace sluice::packed
