// SPDX-License-Identifier: Apache-2.0
// Turns a warpgroup's sums into D: applies scales of whole rows, bias and activation. A thread's sums belong
// to two outputs (rows g and g + 8 of its warp's block), so it loads two scales and two biases per tile.
// 16-bit values are stored through shared memory, 32 tokens at a time, by the copy engine if D's layout
// allows it; fp32 is stored from registers.
#pragma once

#include <sluice/device/epilogue/activation.cuh>
#include <sluice/device/packed/outputs.cuh>
#include <sluice/device/packed/wide_place.cuh>
#include <sluice/device/ptx/shared.cuh>
#include <sluice/device/ptx/tma.cuh>

namespace sluice::packed {

template <WideConfig kConfig>
class WideFinish {
  using S = WideShape<kConfig>;
  static constexpr int kCount = S::kTokens / 2;  // sums per thread
  static constexpr int kRowBytes = kStripRows * 2;

 public:
  SLUICE_DEVICE WideFinish(const WideParams& params, const WidePlace<kConfig>& at)
      : params_(params), at_(at) {}

  /// Stores a warpgroup's strip of the tile.
  SLUICE_DEVICE void run(const WideTile& tile, const float (&sums)[kCount]) {
    store({tile.token, tile.row + at_.group() * kStripRows}, sums);
  }
  /// Waits until all stores to D have completed.
  SLUICE_DEVICE void end() const {
    if (at_.thread() == 0) ptx::bulk_wait_group<0>();
  }

 private:
  // ---- values of D ----
  struct RowOperands {
    float factor, bias;
  };
  struct Operands {
    RowOperands upper, lower;
  };
  SLUICE_DEVICE RowOperands row_operands(int row) const {
    RowOperands of{exact_power(-S::Weights::kLift), 0.0f};
    if (row >= params_.n) return of;
    if constexpr (S::kGroup == 0)
      of.factor = exact_power(S::Weights::kExponent) * row_scale<kConfig.weights>(params_, row);
    if constexpr (kConfig.bias == Bias::column) of.bias = load_element<kConfig.bias_type>(params_.bias, row);
    return of;
  }
  static SLUICE_DEVICE float finished(float sum, const RowOperands& row) {
    return activate<kConfig.activation>(sum * row.factor + row.bias);
  }

  SLUICE_DEVICE void store(const WideTile& own, const float (&sums)[kCount]) {
    if (own.row >= params_.n) return;  // uniform in a warpgroup: n ends before this strip
    const int row = own.row + at_.block() * kBlockRows + at_.lane() / 4;
    const Operands of{row_operands(row), row_operands(row + 8)};
    if constexpr (is_16bit(kConfig.d)) {
      store_from<0>(own, sums, of);
    } else {
      store_directly(own.token + at_.lane() % 4 * 2, row, sums, of);
    }
  }

  /// Stores tokens of the tile from number kFirst on, one buffer at a time.
  template <int kFirst>
  SLUICE_DEVICE void store_from(const WideTile& own, const float (&sums)[kCount], const Operands& of) {
    if constexpr (kFirst < 2 * kCount) {
      constexpr int kTokens = min(kWideStoreTokens, 2 * kCount - kFirst);
      store_through_buffer<kTokens>({own.token + kFirst, own.row}, sums + kFirst / 2, of);
      store_from<kFirst + kTokens>(own, sums, of);
    }
  }

  template <int kTokens>
  SLUICE_DEVICE void store_through_buffer(const WideTile& at, const float* sums, const Operands& of) {
    constexpr int kBuffer = store_buffer_bytes(kConfig);
    const u32 buffer = at_.smem + store_offset(kConfig) + (at_.group() * kWideStoreBuffers + turn_) * kBuffer;
    turn_ ^= 1;
    if (at_.thread() == 0) ptx::bulk_wait_group_read<kWideStoreBuffers - 1>();
    meet();
    const int matrix = at_.lane() / 8;  // upper and lower rows of 8 tokens, then of the next 8
#pragma unroll
    for (int j = 0; j < kTokens / 8; j += 2) {
      const int token = 8 * (j + matrix / 2) + at_.lane() % 8;
      u32 pairs[4];
#pragma unroll
      for (int i = 0; i < 4 && j + i / 2 < kTokens / 8; ++i) {
        const float* pair = sums + 4 * j + 2 * i;
        const RowOperands& row = i % 2 == 0 ? of.upper : of.lower;
        pairs[i] = pack_16bit<kConfig.d>(finished(pair[0], row), finished(pair[1], row));
      }
      const u32 to = piece(buffer, token, 2 * at_.block() + matrix % 2);
      if (j + 2 <= kTokens / 8)
        ptx::stmatrix_x4_trans(to, pairs[0], pairs[1], pairs[2], pairs[3]);
      else
        ptx::stmatrix_x2_trans(to, pairs[0], pairs[1]);  // lanes 0 to 15 give the addresses
    }
    ptx::fence_proxy_async();
    meet();
    if (!params_.stores_boxes) return copy_out<kTokens>(at, buffer);
    if (at_.thread() == 0) {
      constexpr int kBox = store_tokens(kConfig);
#pragma unroll
      for (int t = 0; t < kTokens; t += kBox)
        if (at.token + t < params_.m)
          ptx::tma_store(params_.map_d, {at.row, at.token + t, 0}, buffer + t * kRowBytes);
      ptx::bulk_commit_group();  // also for boxes outside D: the wait above counts groups, one per iteration
    }
  }
  /// Copies element by element, for a D whose row pitch or address the copy engine cannot use: slower, with
  /// the same result.
  template <int kTokens>
  SLUICE_DEVICE void copy_out(const WideTile& at, u32 buffer) const {
    const int lane = at_.lane(), row = at.row + 2 * lane;
    const int tokens = min(kTokens, params_.m - at.token);
#pragma unroll 1
    for (int t = at_.block(); t < tokens; t += 4) {
      const u32 two = ptx::load_shared_u32(piece(buffer, t, lane / 4) + lane % 4 * 4);
      u16* d = static_cast<u16*>(params_.d) + (at.token + t) * params_.ld_d + row;
      if (row < params_.n) d[0] = static_cast<u16>(two);
      if (row + 1 < params_.n) d[1] = static_cast<u16>(two >> 16);
    }
  }
  /// Shared address of eight outputs of a token, in TMA's swizzle.
  static SLUICE_DEVICE u32 piece(u32 buffer, int token, int index) {
    return buffer + token * kRowBytes + ((index ^ token % 8) << 4);
  }
  SLUICE_DEVICE void meet() const {
    ptx::named_barrier_sync(1 + at_.group(), 128);
  }

  SLUICE_DEVICE void store_directly(int first_token, int row, const float (&sums)[kCount],
                                    const Operands& of) const {
    float* d = static_cast<float*>(params_.d) + first_token * params_.ld_d + row;
    int left = params_.m - first_token;  // tokens left, from d's first on
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int down = j < 2 ? 0 : 8;
        if (j % 2 < left && row + down < params_.n)
          d[j % 2 * params_.ld_d + down] = finished(sums[i + j], j < 2 ? of.upper : of.lower);
      }
      d += 8 * params_.ld_d;
      left -= 8;
    }
  }

  const WideParams& params_;
  const WidePlace<kConfig>& at_;
  int turn_ = 0;
};

}  // namespace sluice::packed
