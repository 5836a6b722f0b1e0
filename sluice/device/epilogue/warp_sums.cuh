// SPDX-License-Identifier: Apache-2.0
// Adds up the partial sums that several warps have of one tile. First it adds through shared memory, in the
// order of warps, then across the CTAs of the cluster, in the order of ranks. The order is fixed, so every
// run gives the same bits.
#pragma once

#include <sluice/spec/warp_sums.h>
#include <sluice/device/math/row_pair.cuh>
#include <sluice/device/ptx/cluster_memory.cuh>
#include <sluice/device/ptx/shared.cuh>
#include <sluice/device/ptx/sync.cuh>

namespace sluice {

template <WarpTile kTile>
class WarpSums {
  static constexpr int kUsed = used_columns(kTile);
  static constexpr int kQuads = kTile.rows / 4 * kUsed;  // quads of four neighbouring rows in one column
  static constexpr int kShare = kQuads / kTile.parts;
  struct Nothing {
    SLUICE_DEVICE void operator()() const {}
  };
  static constexpr int kStride = warp_sums_stride(kTile), kThreads = 32 * kTile.warps * kTile.beside;

 public:
  /// `smem`: the CTA's own sums; they overlay the rings, which are no longer used. `incoming`: where other
  /// CTAs send theirs.
  SLUICE_DEVICE WarpSums(u32 smem, u32 incoming, int rank) : smem_(smem), incoming_(incoming), rank_(rank) {}

  /// Call at the start of a kernel with several parts. Signals that this CTA has started, so that others may
  /// write to its shared memory later.
  SLUICE_DEVICE static void announce() {
    if constexpr (kTile.parts > 1) ptx::cluster_arrive_relaxed();
  }

  /// Call from all threads. `sums` has the layout of mma and is multiplied by `factors`. The tile's rows are
  /// rows of A or columns of B, depending on that layout (write() handles both). store(column, row, sums of
  /// four rows) is called once per quad of the CTA's share.
  /// With several parts, all threads call send() once their earlier writes to shared memory are visible and
  /// other CTAs' memory may be written. Data that it sends has arrived when store is called.
  template <class Sums, class Store, class Send = Nothing>
  SLUICE_DEVICE void add_up(const Sums& sums, const RowPair& factors, const Store& store,
                            const Send& send = {}) const {
    gather(sums, factors, send);
    const int thread = static_cast<int>(threadIdx.x);
    if constexpr (kTile.parts == 1)
      for (int quad = thread; quad < kQuads; quad += kThreads) give(store, quad, sum_of_warps(quad));
    else
      for (int i = thread; i < kShare; i += kThreads) give(store, rank_ * kShare + i, sum_of_parts(i));
  }

  /// add_up(), which also passes the result of ask(column, row) for each quad to store(). ask() of a thread's
  /// first quad is called before sums are added up, so that its data has arrived by then.
  template <class Sums, class Ask, class Store, class Send = Nothing>
  SLUICE_DEVICE void add_up_with(const Sums& sums, const RowPair& factors, const Ask& ask, const Store& store,
                                 const Send& send = {}) const {
    constexpr int kOwn = kTile.parts == 1 ? kQuads : kShare;
    const int thread = static_cast<int>(threadIdx.x), begin = kTile.parts == 1 ? 0 : rank_ * kShare;
    decltype(ask(0, 0)) first{};
    if (thread < kOwn) first = ask(column_of(begin + thread), row_of(begin + thread));
    gather(sums, factors, send);
    for (int i = thread; i < kOwn; i += kThreads) {
      const int column = column_of(begin + i), row = row_of(begin + i);
      store(column, row, own_sum(i), i == thread ? first : ask(column, row));
    }
  }

  /// add_up() for a tile whose halves are combined row by row: store(column, row, sums of four rows, sums of
  /// the same rows of the second half).
  template <class Sums, class Store, class Send = Nothing>
  SLUICE_DEVICE void add_up_halves(const Sums& sums, const RowPair& factors, const Store& store,
                                   const Send& send = {}) const {
    static_assert(kUsed % kTile.parts == 0, "a CTA's share is whole columns");
    constexpr int kPairs = kTile.rows / 8;  // pairs of quads in a column
    gather(sums, factors, send);
    for (int i = static_cast<int>(threadIdx.x); i < kShare / 2; i += kThreads) {
      const int column = i / kPairs, first = column * 2 * kPairs + i % kPairs;
      store(rank_ * (kUsed / kTile.parts) + column, i % kPairs * 4, own_sum(first), own_sum(first + kPairs));
    }
  }

 private:
  /// Writes the CTA's sums to its shared memory. With several parts, the CTA's share of every CTA's sums has
  /// arrived on return.
  template <class Sums, class Send>
  SLUICE_DEVICE void gather(const Sums& sums, const RowPair& factors, const Send& send) const {
    __syncthreads();
    write(sums, factors);
    __syncthreads();
    if constexpr (kTile.parts > 1) {
      ptx::cluster_wait_acquire();  // all CTAs have started
      send();
      for (int quad = static_cast<int>(threadIdx.x); quad < kQuads; quad += kThreads)
        ptx::store_cluster(ptx::map_to_cta(slot(rank_, quad % kShare), static_cast<u32>(quad / kShare)),
                           sum_of_warps(quad));
      __syncwarp();  // lanes leave send() and the loop at different times, but the barrier needs converged
                     // warps
      ptx::cluster_arrive_release();
      ptx::cluster_wait_acquire();
    }
  }
  SLUICE_DEVICE u32 address(int warp, int column, int row) const {
    return smem_ + 4 * ((warp * kUsed + column) * kStride + row);
  }
  SLUICE_DEVICE u32 slot(int part, int index) const { return incoming_ + 16 * (part * kShare + index); }
  template <class Store>
  SLUICE_DEVICE static void give(const Store& store, int quad, const ptx::Float4& sum) {
    store(column_of(quad), row_of(quad), sum);
  }
  SLUICE_DEVICE static int column_of(int quad) { return quad / (kTile.rows / 4); }
  SLUICE_DEVICE static int row_of(int quad) { return quad % (kTile.rows / 4) * 4; }
  /// Quad i of the CTA's share.
  SLUICE_DEVICE ptx::Float4 own_sum(int i) const {
    return kTile.parts == 1 ? sum_of_warps(i) : sum_of_parts(i);
  }

  SLUICE_DEVICE void write(const float (&sums)[warp_blocks(kTile)][kTile.columns / 8][4],
                           const RowPair& factors) const {
    static_assert(kUsed == 1 || kUsed % 2 == 0, "a lane has columns by twos");
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
    const int warp = thread / 32 / kTile.beside, first = thread / 32 % kTile.beside;
#pragma unroll
    for (int block = 0; block < warp_blocks(kTile); ++block) {
      const int row = 16 * (kTile.beside * block + first) + lane / 4;
      if (16 * kTile.beside * warp_blocks(kTile) > kTile.rows && row >= kTile.rows)
        break;                                                          // past the tile's rows
      const bool lower = kTile.rows % 16 == 0 || row + 8 < kTile.rows;  // the tile ends with half a block
#pragma unroll
      for (int j = 0; j < kTile.columns / 8; ++j) {
        const int column = 8 * j + lane % 4 * 2;
        if (kUsed < kTile.columns && column >= kUsed) continue;
        const u32 to = address(warp, column, row);
        ptx::store_shared(to, sums[block][j][0] * factors.upper);
        if (lower) ptx::store_shared(to + 4 * 8, sums[block][j][2] * factors.lower);
        if (kUsed == 1) continue;
        ptx::store_shared(to + 4 * kStride, sums[block][j][1] * factors.upper);
        if (lower) ptx::store_shared(to + 4 * (kStride + 8), sums[block][j][3] * factors.lower);
      }
    }
  }
  /// Writes sums whose rows are columns of B: of each eight rows, a lane has rows 2c and 2c + 1, for columns
  /// g and g + 8.
  SLUICE_DEVICE void write(const float (&sums)[kTile.rows / 8][max(1, kTile.columns / 16)][4],
                           const RowPair& factors) const {
    static_assert(kTile.beside == 1 && kUsed == kTile.columns);
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
#pragma unroll
    for (int eight = 0; eight < kTile.rows / 8; ++eight)
#pragma unroll
      for (int j = 0; j < kTile.columns / 16; ++j) {
        const u32 to = address(thread / 32, 16 * j + lane / 4, 8 * eight + lane % 4 * 2);
        const float factor = eight % 2 == 0 ? factors.upper : factors.lower;
        ptx::store_shared_v2(to, sums[eight][j][0] * factor, sums[eight][j][1] * factor);
        ptx::store_shared_v2(to + 4 * 8 * kStride, sums[eight][j][2] * factor, sums[eight][j][3] * factor);
      }
  }
  SLUICE_DEVICE static void add(ptx::Float4& sum, const ptx::Float4& other) {
    sum.x += other.x;
    sum.y += other.y;
    sum.z += other.z;
    sum.w += other.w;
  }
  SLUICE_DEVICE ptx::Float4 sum_of_warps(int quad) const {
    const int column = column_of(quad), row = row_of(quad);
    ptx::Float4 sum = ptx::load_shared_v4(address(0, column, row));
#pragma unroll
    for (int warp = 1; warp < kTile.warps; ++warp) add(sum, ptx::load_shared_v4(address(warp, column, row)));
    return sum;
  }
  SLUICE_DEVICE ptx::Float4 sum_of_parts(int index) const {
    ptx::Float4 sum = ptx::load_shared_v4(slot(0, index));
#pragma unroll
    for (int part = 1; part < kTile.parts; ++part) add(sum, ptx::load_shared_v4(slot(part, index)));
    return sum;
  }

  u32 smem_, incoming_;
  int rank_;
};

}  // namespace sluice
