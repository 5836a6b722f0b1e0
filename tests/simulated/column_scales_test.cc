// SPDX-License-Identifier: Apache-2.0
// Scales of rows and columns by 128 of k (ScaleMode::vector128) on their way through shared memory: two warps
// of a simulated CTA bring them, and a warpgroup reads them. Each factor must be that of its row, column and
// k-tile, in partial tiles, batches and slices that begin at an odd k-tile. Arrays end where their memory
// does, so a read behind them ends the test. To see it fail: let load() forget the columns that are left, or
// read_columns() begin a column later.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_names.h"
//
#include <sluice/device/math/block_scales.cuh>

namespace simulated {
namespace {

using namespace sluice;

/// fp32 values that end at a page without rights.
class Guarded {
 public:
  explicit Guarded(i64 count) : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(float);
    size_ = (bytes + page_ - 1) / page_ * page_;
    base_ = static_cast<u8*>(
        mmap(nullptr, size_ + page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(mprotect(base_ + size_, page_, PROT_NONE), 0);
    values_ = reinterpret_cast<float*>(base_ + size_ - bytes);
  }
  ~Guarded() { munmap(base_, size_ + page_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  float& operator[](i64 i) { return values_[i]; }
  const float* data() const { return values_; }

 private:
  size_t page_, size_ = 0;
  u8* base_ = nullptr;
  float* values_ = nullptr;
};

struct Size {
  int m = 1, n = 1, k_blocks = 1, batch = 1, gap = 0;
};

constexpr KernelConfig config_of(Schedule schedule, int m, int n, int along_k = 1) {
  return {.schedule = schedule,
          .tile = {m, n, 128},
          .cluster = {1, 1, along_k},
          .a = DType::e4m3,
          .b = DType::e4m3,
          .promotes = true,
          .epilogue = {.scale_a = ScaleMode::block, .scale_b = ScaleMode::vector128},
          .scale_a_columns = true};
}

float value_of(int side, int batch, int block, int index) {
  return static_cast<float>((side + 1) * 0x10000 + batch * 0x4000 + block * 0x400 + index);
}

/// A tile whose k-tiles begin at `first`; its scales go through two slots in turn.
template <KernelConfig kConfig>
void expect_factors(const Size& size, int m_offset, int n_offset, int batch, int first) {
  const int ld = size.m + size.gap;
  Guarded a(i64{size.batch} * size.k_blocks * ld - size.gap), b(i64{size.batch} * size.k_blocks * size.n);
  for (int matrix = 0; matrix < size.batch; ++matrix)
    for (int block = 0; block < size.k_blocks; ++block) {
      const i64 line = i64{matrix} * size.k_blocks + block;
      for (int row = 0; row < size.m; ++row) a[line * ld + row] = value_of(0, matrix, block, row);
      for (int column = 0; column < size.n; ++column)
        b[line * size.n + column] = value_of(1, matrix, block, column);
    }
  FactoredParams params{};
  params.scale_a = a.data();
  params.scale_b = b.data();
  params.scale_a_ld = ld;
  params.m = size.m;
  params.n = size.n;
  params.grid.k_tiles = size.k_blocks;
  Tile tile{};
  tile.m_offset = m_offset, tile.n_offset = n_offset, tile.batch = batch;
  tile.first_k_tile = first, tile.k_tiles = size.k_blocks - first;
  int compared = 0;
  cta.launch({.threads = 256, .shared_bytes = 2 * scale_slot_bytes(kConfig)}, [&] {
    const int thread = static_cast<int>(threadIdx.x), warp = thread / 32 - 1;
    ScaleLoaderOf<kConfig> loader;
    ScaleReader<kConfig> reader;
    if (warp == 0 || warp == 1) loader.begin_tile(params, tile, warp);
    for (int k = first; k < size.k_blocks; ++k) {
      const u32 slot = kSharedBase + static_cast<u32>(k % 2 * scale_slot_bytes(kConfig));
      if (warp == 0 || warp == 1) {
        loader.fetch(params, k);
        loader.write(slot, k);
      }
      __syncthreads();
      if (thread < 128) continue;
      const int lane = thread % 32, own = thread % 128 / 32 * 16 + lane / 4;
      reader.read(slot, own);
      for (int i = 0; i < kConfig.tile.n / 2; ++i) {
        reader.read_columns(slot, i);
        for (int wave = 0; wave < waves(kConfig); ++wave) {
          const int row = m_offset + own + wave * kWaveRows + i % 4 / 2 * 8;
          const int column = n_offset + i / 4 * 8 + lane % 4 * 2 + i % 2;
          if (row >= size.m || column >= size.n) continue;
          EXPECT_EQ(reader.of(wave, i), value_of(0, batch, k, row) * value_of(1, batch, k, column))
              << "row " << row << " column " << column << " k-tile " << k;
          ++compared;
        }
      }
    }
  });
  EXPECT_GT(compared, 0);
  EXPECT_EQ(cta.faults, 0) << cta.first_fault;
}

template <KernelConfig kConfig>
void expect_all_factors() {
  const int m = kConfig.tile.m, n = kConfig.tile.n;
  expect_factors<kConfig>({.m = m, .n = n, .k_blocks = 5}, 0, 0, 0, 0);
  expect_factors<kConfig>({.m = m + 3, .n = n + 5, .k_blocks = 6, .batch = 2, .gap = 4}, m, n, 1, 0);
  expect_factors<kConfig>({.m = 2 * m - 1, .n = 2 * n - 1, .k_blocks = 7, .batch = 2}, m, n, 0, 3);
  expect_factors<kConfig>({.m = 1, .n = 1, .k_blocks = 1}, 0, 0, 0, 0);
  expect_factors<kConfig>({.m = m, .n = 9, .k_blocks = 6, .gap = 1}, 0, 0, 0, 5);
}

TEST(column_scales, are_those_of_each_row_column_and_k_tile) {
  expect_all_factors<config_of(Schedule::ping_pong, 64, 32)>();
  expect_all_factors<config_of(Schedule::ping_pong, 64, 64)>();
  expect_all_factors<config_of(Schedule::ping_pong, 64, 256)>();
  expect_all_factors<config_of(Schedule::ping_pong, 64, 224, 2)>();
  expect_all_factors<config_of(Schedule::ping_pong, 128, 96)>();
  expect_all_factors<config_of(Schedule::cooperative, 128, 160)>();
  expect_all_factors<config_of(Schedule::cooperative, 128, 192)>();
  expect_all_factors<config_of(Schedule::cooperative, 128, 256)>();
}

}  // namespace
}  // namespace simulated
