// SPDX-License-Identifier: Apache-2.0
// The loads of kernels/byte_plain.cuh. Weights: each warp has stages of its own, with the 16 rows that it
// multiplies of every k_groups-th tile, and fills them by cp.async; a lane copies the very codes that it
// reads. All but one of the stages are filled or read. Tokens: lane 0 of every warp brings some of the CTA's
// k-tiles by TMA, which all stay; so no stage waits for other warps, and nothing that cp.async wrote is read
// by WGMMA (the fence for that would wait for all copies that are on their way:
// docs/findings/few-bit-weights.md).
#pragma once

#include <sluice/device/mixed/byte_place.cuh>
#include <sluice/device/ptx/async_copy.cuh>
#include <sluice/device/ptx/tma.cuh>
#include <sluice/device/timeline.cuh>

namespace sluice::mixed {

/// Issued: called once, when the last copy is on its way; never of a warp that has none.
template <ByteConfig kConfig, class Issued>
class ByteCopies {
  using S = ByteShape<kConfig>;
  static constexpr int kRing = ring_stages(kConfig), kStep = S::kKGroups;
  static constexpr int kChunkBytes = tile_code_bytes(kConfig.weights) / 2;
  static constexpr int kWarpChunk = 32 * kLaneBytes;                 // of it, this warp's
  static constexpr int kGroupBytes = kStripRows * S::kScaleSize;     // scales, or zeros, of a group of k
  static constexpr int kGroupPieces = kGroupBytes / 4 / kLaneBytes;  // of it, this warp's
  static constexpr int kScalePieces =
      (S::kTileBytes - tile_code_bytes(kConfig.weights)) / kGroupBytes * kGroupPieces;
  static_assert(kScalePieces <= 32);

 public:
  SLUICE_DEVICE ByteCopies(const ByteParams& params, const BytePlace<kConfig>& at, TimelineMarks& timeline,
                           const Issued& issued)
      : at_(at), timeline_(timeline), issued_(issued) {
    const int lane = at.lane(), group = at.k_group();
    stage_ = tile_ = group;
    left_ = max(0, at.count - group + kStep - 1) / kStep;
    const u8* tile = static_cast<const u8*>(params.weights) +
                     at.strip_in_blob(params, at.strip()) * params.strip_bytes +
                     static_cast<i64>(at.first_tile + group) * S::kTileBytes;
    codes_ = tile + at.block() * kWarpChunk + lane * kLaneBytes;
    const int scales = tile_code_bytes(kConfig.weights) + lane / max(kGroupPieces, 1) * kGroupBytes +
                       at.block() * (kGroupBytes / 4) + lane % max(kGroupPieces, 1) * kLaneBytes;
    to_scales_ = scales - at.block() * kWarpChunk - lane * kLaneBytes;
    policy_ = params.token_tiles == 1 ? ptx::evict_first_policy() : ptx::evict_normal_policy();
    // A shuffle, so that ptxas sees no uniform register in it: of one it (13.0) makes an LDGSTS that stood in
    // a build with an illegal instruction (docs/findings/few-bit-weights.md).
    to_ = __shfl_sync(
        ~0u, at.w_stage(group) + at.strip() * S::kTileBytes + at.block() * kWarpChunk + lane * kLaneBytes,
        lane);
  }

  /// The barriers that say which tokens have come, one for each tile. All threads; then they meet.
  SLUICE_DEVICE static void start(const BytePlace<kConfig>& at) {
    for (int i = static_cast<int>(threadIdx.x); i < at.count; i += S::kMathThreads)
      ptx::mbarrier_init(token_barrier(at, i), 1);
    ptx::fence_mbarrier_init();
  }
  SLUICE_DEVICE void fill_weights() {
#pragma unroll
    for (int i = 0; i < kRing - 1; ++i) fill_next();
    timeline_.mark(Moment::loads_issued);
    timeline_.claim(threadIdx.x == 0);
  }
  /// Behind the wait for who wrote them.
  SLUICE_DEVICE void bring_tokens(const ByteParams& params) const {
    if (at_.lane() == 0) {
      const u64 policy = ptx::evict_last_policy();
#pragma unroll 1
      for (int i = at_.warp; i < at_.count; i += 4 * S::kMathGroups) {
        ptx::mbarrier_arrive_expect_tx(token_barrier(at_, i), params.x_bytes);
        ptx::tma_load(at_.x_stage(i), params.map_x, {(at_.first_tile + i) * kPackedTileK, at_.first_token, 0},
                      token_barrier(at_, i), policy);
      }
    }
    __syncwarp();
  }

  // ---- what ByteProducts takes of a ring ----
  SLUICE_DEVICE void wait_first() {
    come<kRing - 2>();
  }
  /// Of the tile before the one that is open this warp has read all that it needs.
  SLUICE_DEVICE void wait() {
    come<kRing - 3>();
    fill_next();
  }
  SLUICE_DEVICE int stage() const {
    return stage_;
  }
  /// Of the tile, and they are there; its codes may be made e4m3 before.
  SLUICE_DEVICE u32 tokens() const {
    ptx::mbarrier_wait_parity(token_barrier(at_, tile_), 0);
    __syncwarp();
    return at_.x_stage(tile_);
  }
  SLUICE_DEVICE void advance() {
    tile_ += kStep;
    stage_ += kStep;
    if (stage_ >= S::kStages) stage_ -= S::kStages;
  }
  SLUICE_DEVICE void release(int) const {}

 private:
  static SLUICE_DEVICE u32 token_barrier(const BytePlace<kConfig>& at, int tile) {
    return at.smem + barrier_offset(kConfig) + 8 * tile;
  }
  template <int kPending>
  SLUICE_DEVICE void come() {
    ptx::wait_copies<kPending>();
    __syncwarp();  // all lanes' copies have come, and all have read what the next ones replace
    timeline_.mark_stage(kRing - 1);
  }
  /// The next tile, or none: a group of copies all the same.
  SLUICE_DEVICE void fill_next() {
    if (left_ > 0) {
      ptx::copy_16_bytes(to_, codes_, policy_);
      ptx::copy_16_bytes(to_ + kChunkBytes, codes_ + kChunkBytes, policy_);
      if (kScalePieces == 32 || at_.lane() < kScalePieces)
        ptx::copy_16_bytes(to_ + to_scales_, codes_ + to_scales_, policy_);
      codes_ += kStep * S::kTileBytes;
      if (--left_ == 0) issued_();
    }
    ptx::commit_copies();
    const bool turned = ++refill_ == kRing;
    if (turned) refill_ = 0;
    to_ += turned ? (kStep - S::kStages) * w_stage_bytes(kConfig) : kStep * w_stage_bytes(kConfig);
  }

  const BytePlace<kConfig>& at_;
  TimelineMarks& timeline_;
  const Issued& issued_;
  const u8* codes_;  // this lane's first 16 bytes of the next tile
  u64 policy_;
  u32 to_;          // where they go
  int to_scales_;   // from there to its 16 bytes of scales or zeros
  int left_;        // tiles that are still to be copied
  int stage_;       // the next to be read
  int tile_;        // the same, of the CTA's
  int refill_ = 0;  // the next to be filled, of kRing
};

}  // namespace sluice::mixed
