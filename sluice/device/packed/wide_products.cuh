// SPDX-License-Identifier: Apache-2.0
// The main loop of a math warpgroup. While products of 64 k are in flight, the weights of the next 64 k
// become registers. There are two sets of A registers; a set is overwritten only after wait_group has retired
// the products that read it.
#pragma once

#include <sluice/device/packed/half_tile.cuh>
#include <sluice/device/packed/wide_place.cuh>

namespace sluice::packed {

template <WideConfig kConfig>
class WideProducts {
  using S = WideShape<kConfig>;

 public:
  static constexpr int kCount = S::kTokens / 2;  // sums per thread

  SLUICE_DEVICE explicit WideProducts(const WidePlace<kConfig>& at) : at_(at) {}

  /// Multiplies one tile of D with at least one k-tile. On return no product is in flight and all stages are
  /// released. `sums` must be uninitialised, because otherwise ptxas would wait after every product.
  SLUICE_DEVICE void run(const WideParams& params, const WideTile& tile, float (&sums)[kCount]) {
    const int strip = min(tile.row / kStripRows + at_.group(), params.strips - 1);
    weights_.begin(params, strip, at_.block(), at_.lane());
    ptx::mbarrier_wait_parity(at_.w_full(w_.stage), w_.phase);
    weights_.template load<0>(strip_of(w_.stage), at_.block(), at_.lane());
    convert<0>();
    walk_ring(params.k_tiles, sums);
    ptx::wgmma_wait_group<0>();
    pin<1>();
    ptx::pin_registers(sums);
  }

 private:
  /// Stages of one k-tile: two of tokens, the previous token stage, its weights and the next weights.
  struct Step {
    int x, x_second, x_before, w, w_next;
    u32 x_phase, x_second_phase, w_next_phase;
    bool first, last;
  };

  SLUICE_DEVICE void walk_ring(int count, float (&sums)[kCount]) {
    int before = 0;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      RingPosition second = x_, next = w_;
      second.advance(S::kXStages);
      next.advance(S::kWStages);
      multiply_k_tile({x_.stage, second.stage, before, w_.stage, next.stage, x_.phase, second.phase,
                       next.phase, i == 0, i + 1 == count},
                      sums);
      before = second.stage;
      x_ = second;
      x_.advance(S::kXStages);
      w_ = next;
    }
    ptx::wgmma_wait_group<0>();
    release_x(before);
  }
  /// Multiplies a k-tile. Words are loaded before the products that hide their latency, so that ptxas expands
  /// some of them between these products. That is 3 to 8 % faster with 32 to 128 tokens than loading them
  /// afterwards (H200, NVRTC 13.0).
  SLUICE_DEVICE void multiply_k_tile(const Step& s, float (&sums)[kCount]) {
    weights_.template load<1>(strip_of(s.w), at_.block(), at_.lane());
    release_w(s.w);
    ptx::mbarrier_wait_parity(at_.x_full(s.x), s.x_phase);
    issue<0>(s.x, s.first, sums);
    ptx::wgmma_wait_group<1>();
    convert<1>();
    if (!s.first) release_x(s.x_before);
    if (!s.last) {
      ptx::mbarrier_wait_parity(at_.w_full(s.w_next), s.w_next_phase);
      weights_.template load<0>(strip_of(s.w_next), at_.block(), at_.lane());
    }
    ptx::mbarrier_wait_parity(at_.x_full(s.x_second), s.x_second_phase);
    issue<1>(s.x_second, false, sums);
    ptx::wgmma_wait_group<1>();
    convert<0>();  // after the last k-tile this converts garbage, which is not used
    release_x(s.x);
  }

  template <int kHalf>
  SLUICE_DEVICE void issue(int stage, bool fresh, float (&sums)[kCount]) {
    using Instruction = ptx::WgmmaRs<kConfig.x, kConfig.tokens>;
    const u64 tokens = ptx::smem_descriptor(at_.x_stage(stage), 16, 8 * 128);
    ptx::wgmma_fence();
#pragma unroll
    for (int q = 0; q < 4; ++q) Instruction::mma(sums, a_[kHalf][q], tokens + 2 * q, q > 0 || !fresh);
    ptx::wgmma_commit_group();
  }
  template <int kHalf>
  SLUICE_DEVICE void convert() {
    weights_.template convert<kHalf>(a_[kHalf]);
  }
  template <int kHalf>
  SLUICE_DEVICE void pin() {
#pragma unroll
    for (int q = 0; q < 4; ++q) ptx::pin_registers(a_[kHalf][q]);
  }

  SLUICE_DEVICE u32 strip_of(int stage) const {
    return at_.w_stage(stage) + at_.group() * S::kTileBytes;
  }
  SLUICE_DEVICE void release_w(int stage) const {
    __syncwarp();
    if (at_.lane() == 0) ptx::mbarrier_arrive(at_.w_empty(stage));
  }
  SLUICE_DEVICE void release_x(int stage) const {
    if constexpr (kConfig.cluster_n == 1) {
      if (at_.lane() == 0) ptx::mbarrier_arrive(at_.x_empty(stage));
    } else {
      if (at_.lane() < kConfig.cluster_n)
        ptx::mbarrier_arrive_cluster(at_.x_empty(stage), static_cast<u32>(at_.lane()));
    }
  }

  const WidePlace<kConfig>& at_;
  RingPosition x_, w_;
  HalfTile<kConfig.weights, kConfig.x> weights_;
  u32 a_[2][4][4];  // registers of even and of odd 64 k
};

}  // namespace sluice::packed
