// SPDX-License-Identifier: Apache-2.0
// The kernel that adds slices, under g++: slots with known sums, every peer in the order of k, all of D and
// nothing outside, partial tiles. PTX is left out, and slots are loaded by plain loads. To see it fail: use
// one peer less in PartSummer::peers(), or leave out the store of a fragment's lower row.
#include <gtest/gtest.h>

#include <random>

#include <sluice/spec/params.h>
#include <sluice/spec/part_sums.h>

#include "simulated_grid.h"

struct uint2 {
  sluice::u32 x, y;
};
struct float4 {
  float x, y, z, w;
};
inline float __uint_as_float(unsigned bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
// Never called; needed to compile.
inline sluice::u64 __cvta_generic_to_shared(const void*) {
  return 0;
}
inline float __fdividef(float, float) {
  return 0;
}
// Replaces PTX: `asm volatile(...)` becomes `asm ("")`, and `asm(...)` an empty expression. Functions whose
// result the kernel needs are replaced below.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define volatile(...) ("")
#define asm(...) static_cast<void>(0)
#include <sluice/device/element.cuh>
#include <sluice/device/ptx/global.cuh>
#include <sluice/device/ptx/sync.cuh>
namespace sluice {
namespace ptx {
inline Float4 load_slot(const float* address) {
  return {address[0], address[1], address[2], address[3]};
}
}  // namespace ptx
template <DType kType>
float plain_element(const void* base, i64 index) {
  static_assert(kType == DType::fp32);
  return static_cast<const float*>(base)[index];
}
}  // namespace sluice
#define load_global load_slot
#define load_element plain_element
#include <sluice/kernels/sum_parts.cuh>
#undef load_global
#undef load_element
#undef asm
#undef volatile
#pragma GCC diagnostic pop

namespace sluice {
namespace {

constexpr float kUntouched = -12345;

/// A product whose slices are in workspace slots. Partial sums are small whole numbers, so they are exact in
/// any order.
template <KernelConfig kConfig>
class Parts {
 public:
  Parts(int m, int n, int k, const WorkSplit& split) : m_(m), n_(n), split_(split) {
    grid_ = tile_grid(kConfig, m, n, k, 1);
    slices_ = slices_of(grid_, split);
    slots_.assign(static_cast<size_t>(workspace_bytes(kConfig, split) / 4), std::nanf(""));
    d_.assign(static_cast<size_t>(m + 2) * (n + 3), kUntouched);
    scales_.resize(static_cast<size_t>(m));
    for (int row = 0; row < m; ++row) scales_[static_cast<size_t>(row)] = static_cast<float>(1 + row % 3);
    write_slots();
  }

  void add_up() {
    GemmParams params{};
    params.m = m_, params.n = n_;
    params.grid = grid_, params.slices = slices_;
    params.raster = split_.raster, params.raster_group = split_.group;
    params.partials = slots_.data();
    params.d = d_.data(), params.d_ld = n_ + 3;
    params.alpha = 2;
    params.scale_a = scales_.data();
    const SumGrid grid = sum_grid(kConfig, tiles_in_slices(split_));
    // Blocks of two warpgroups stand in for those of four.
    const int threads = min(grid.summers, 2) * kWarpgroupThreads;
    simulated_grid::launch(
        static_cast<unsigned>(grid.blocks), [&] { sum_parts<kConfig>(params); },
        static_cast<unsigned>(threads));
  }

  /// Returns the number of elements of D with a wrong value.
  int wrong() const {
    int wrong = 0;
    for (int row = 0; row < m_ + 2; ++row)
      for (int column = 0; column < n_ + 3; ++column)
        wrong += d_[static_cast<size_t>(row) * (n_ + 3) + column] != expected(row, column);
    return wrong;
  }

 private:
  static float part(int row, int column, int rank) {
    return static_cast<float>((row * 7 + column * 3 + rank * 11) % 31 - 15);
  }
  /// Writes each CTA's partial sums to its slots, as PartialSlot::write() does.
  void write_slots() {
    for (int index = 0; index < tiles_in_slices(split_); ++index) {
      const Sharing sharing = sharing_of(slices_, index, 0);
      for (int cta = 0; cta < cluster_size(kConfig); ++cta) {
        const Tile tile =
            own_part(kConfig, tile_at(kConfig, grid_, split_.raster, split_.group, index, cta), cta);
        for (int rank = 0; rank < sharing.peers; ++rank) write_slot(tile, sharing, cta, rank);
      }
    }
  }
  void write_slot(const Tile& tile, const Sharing& sharing, int cta, int rank) {
    for (int row = 0; row < kConfig.tile.m && tile.m_offset + row < m_; ++row)
      for (int column = 0; column < own_columns(kConfig) && tile.n_offset + column < n_; ++column) {
        const int group = row / group_rows(kConfig), in_group = row % group_rows(kConfig);
        const int wave = in_group / kWaveRows, in_wave = in_group % kWaveRows;
        const int thread = in_wave / 16 * 32 + in_wave % 8 * 4 + column % 8 / 2;
        const int value = in_wave % 16 / 8 * 2 + column % 2;
        const i64 slot = i64{part_index(kConfig, sharing.slot + rank, cta, group)} * part_floats(kConfig);
        const int vector = wave * (own_columns(kConfig) / 8) + column / 8;
        slots_[static_cast<size_t>(slot + (vector * kWarpgroupThreads + thread) * 4 + value)] =
            part(tile.m_offset + row, tile.n_offset + column, rank);
      }
  }
  float expected(int row, int column) const {
    if (row >= m_ || column >= n_) return kUntouched;
    float sum = 0;
    for (int rank = 0; rank < split_.slices; ++rank) sum += part(row, column, rank);
    return sum * 2 * scales_[static_cast<size_t>(row)];
  }

  int m_, n_;
  WorkSplit split_;
  TileGrid grid_;
  Slices slices_;
  std::vector<float> slots_, d_, scales_;
};

constexpr Epilogue kScaled{.scale_a = ScaleMode::vector};
constexpr KernelConfig combining(Schedule schedule, TileShape tile, ClusterShape cluster) {
  return {.schedule = schedule,
          .tile = tile,
          .cluster = cluster,
          .d = DType::fp32,
          .store = StorePath::direct,
          .combine = Combine::separate,
          .epilogue = kScaled};
}

template <KernelConfig kConfig>
void expect_summed(int m, int n, int k, const WorkSplit& split) {
  Parts<kConfig> parts(m, n, k, split);
  parts.add_up();
  EXPECT_EQ(parts.wrong(), 0) << m << "x" << n << "x" << k << ", " << split.slices << " slices, "
                              << split.clusters << " clusters";
}

TEST(sum_parts, adds_every_peer_of_every_element) {
  constexpr KernelConfig kPingPong = combining(Schedule::ping_pong, {64, 16, 64}, {1, 1});
  expect_summed<kPingPong>(64, 16, 512, {.clusters = 4, .slices = 4});
  expect_summed<kPingPong>(128, 32, 640,
                           {.clusters = 12, .raster = Raster::along_n, .group = 1, .slices = 3});
}

TEST(sum_parts, stores_nothing_past_ragged_rows_and_columns) {
  constexpr KernelConfig kPingPong = combining(Schedule::ping_pong, {64, 16, 64}, {1, 1});
  constexpr KernelConfig kCooperative = combining(Schedule::cooperative, {128, 24, 64}, {2, 1});
  constexpr KernelConfig kAlongK = combining(Schedule::cooperative, {128, 32, 64}, {1, 1, 2});
  std::mt19937 random(8);
  for (int i = 0; i < 6; ++i) {
    const int m = 1 + static_cast<int>(random() % 150), n = 1 + static_cast<int>(random() % 40);
    const int k_tiles = 2 + static_cast<int>(random() % 9);
    const auto in_slices = [&](const KernelConfig& c) {
      return WorkSplit{.clusters = cluster_tiles(tile_grid(c, m, n, 64 * k_tiles, 1)) * k_tiles,
                       .slices = k_tiles};
    };
    expect_summed<kPingPong>(m, n, 64 * k_tiles, in_slices(kPingPong));
    expect_summed<kCooperative>(m, n, 64 * k_tiles, in_slices(kCooperative));
    expect_summed<kAlongK>(m, n, 64 * k_tiles, in_slices(kAlongK));
  }
}

/// With more than kManySumBlocks blocks, CTAs have one warpgroup. They add twice as many columns, if those
/// divide the tile.
TEST(sum_parts, adds_many_sums_with_one_warpgroup_a_block) {
  constexpr KernelConfig kWide = combining(Schedule::ping_pong, {64, 256, 64}, {1, 1});
  constexpr KernelConfig kNarrow = combining(Schedule::ping_pong, {64, 248, 64}, {1, 1});
  static_assert(sum_grid(kWide, 33).columns == kWideSumColumns && sum_grid(kWide, 33).summers == 1);
  static_assert(sum_grid(kNarrow, 34).columns == kSumColumns && sum_grid(kNarrow, 34).summers == 1);
  expect_summed<kWide>(64 * 33 - 5, 250, 192, {.clusters = 99, .slices = 3});
  expect_summed<kNarrow>(64 * 34 - 9, 248, 128, {.clusters = 68, .slices = 2});
}

}  // namespace
}  // namespace sluice
