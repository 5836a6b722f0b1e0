// SPDX-License-Identifier: Apache-2.0
// Short descriptions of small scenarios, and functions that check a search. Tiles are the smallest that a
// schedule allows, because the protocol depends only on their number and on their chunks.
#pragma once

#include <gtest/gtest.h>

#include <sluice/spec/validate.h>
#include <sluice/twin/explore.h>

namespace sluice::twin {

struct Shape {
  Schedule schedule = Schedule::ping_pong;
  int stages = 2;
  int k_tiles = 2;
  int rows = 2;     // number of cluster tiles along m
  int columns = 1;  // number of cluster tiles along n
  int batch = 1;
  ClusterShape cluster{};
  int clusters = 1;  // clusters that share the work; with slices one per slice
  bool promotes = false;
  bool block_scales = false;  // true: promotes as well
  bool each_column = false;   // block scales, of which each column of B has its own
  bool scale_vectors = false;
  bool two_units = false;  // true: promotes, and a wide tile's partial sums come in two halves
  int chunks = 1;          // number of store chunks in one row of a tile
  StorePath store = StorePath::tma;
  int warps_per_group = 1;
  int short_rows = 3;  // rows of the last tile row outside D
  int slices = 1;      // along k, of every tile
  Update update = Update::set;
  Combine combine = Combine::last_arriver;  // how shared tiles are combined
  Overlap overlap{};
};

inline Scenario make(const Shape& s) {
  const bool blocks = s.block_scales || s.each_column, fp8 = s.promotes || blocks || s.two_units;
  const ScaleMode scales = blocks ? ScaleMode::block : s.scale_vectors ? ScaleMode::vector : ScaleMode::none;
  KernelConfig config{.schedule = s.schedule,
                      .tile = {.m = s.schedule == Schedule::ping_pong ? 64 : 128,
                               // A chunk is 128 bytes of fp32.
                               .n = s.two_units ? 256 : 32 * s.chunks * s.cluster.k,
                               .k = fp8 ? 128 : 64},
                      .stages = s.stages,
                      .cluster = s.cluster,
                      .a = fp8 ? DType::e4m3 : DType::bf16,
                      .b = fp8 ? DType::e4m3 : DType::bf16,
                      .d = DType::fp32,
                      .promotes = fp8,
                      .store = s.store,
                      .combine = s.slices > 1 ? s.combine : Combine::none,
                      .epilogue = {.scale_a = scales,
                                   .scale_b = s.each_column ? ScaleMode::vector128 : scales,
                                   .update = s.update},
                      .overlap = s.overlap,
                      .scale_a_columns = s.each_column};
  // The last row and column of tiles extend beyond D, as is usual.
  const int m = s.rows * s.cluster.m * config.tile.m - s.short_rows,
            n = s.columns * s.cluster.n * config.tile.n - 1;
  const int k = s.k_tiles == 0 ? 0 : s.k_tiles * config.tile.k - 1;
  EXPECT_EQ(validate(config), nullptr) << validate(config);
  return {.config = config,
          .m = m,
          .n = n,
          .k = k,
          .batch = s.batch,
          .split = {.clusters = s.slices > 1 ? s.rows * s.columns * s.batch * s.slices : s.clusters,
                    .group = 2,
                    .slices = s.slices},
          .warps_per_group = s.warps_per_group};
}

inline std::string text_of(const Shape& s) {
  return std::string(name_of(s.schedule)) + " stages " + std::to_string(s.stages) + " k_tiles " +
         std::to_string(s.k_tiles) + " tiles " + std::to_string(s.rows) + "x" + std::to_string(s.columns) +
         "x" + std::to_string(s.batch) + " cluster " + std::to_string(s.cluster.m) + "x" +
         std::to_string(s.cluster.n) + "x" + std::to_string(s.cluster.k) + " slices " +
         std::to_string(s.slices) + " clusters " + std::to_string(s.clusters) +
         (s.promotes ? " promoted" : "") + (s.block_scales ? " block_scales" : "") +
         (s.each_column ? " each_column" : "") + (s.scale_vectors ? " scale_vectors" : "") +
         (s.two_units ? " two_units" : "") + (s.update == Update::add ? " added" : "") +
         (s.combine == Combine::add ? " in parts" : "") + " chunks " + std::to_string(s.chunks) + " " +
         name_of(s.store) + " warps " + std::to_string(s.warps_per_group);
}

inline void expect_clean(const Exploration& found, const Shape& shape) {
  EXPECT_FALSE(found.failure) << text_of(shape) << '\n' << describe(*found.failure);
}

/// Expects the mutant to be found, and by the rule that its own bug breaks.
inline void expect_caught(const Exploration& found, FailureKind kind, const Shape& shape) {
  ASSERT_TRUE(found.failure) << "not caught: " << text_of(shape);
  EXPECT_STREQ(name_of(found.failure->kind), name_of(kind)) << text_of(shape) << '\n'
                                                            << describe(*found.failure);
}

}  // namespace sluice::twin
