// SPDX-License-Identifier: Apache-2.0
// Products whose A and B both have scales by 1 x 128, as weight gradients in FP8 have, on the GPU. They run
// on every tile, store path, cluster and split, in partial tiles, stored and added. Sums are exact to the
// bit, or with real data within the bound. To see it fail: let ScaleReader::read_columns read the next
// column, or release the stage in multiply_tile_promoted before the sums are promoted.
#include <array>

#include "gpu.h"

namespace sluice::testing {
namespace {

class scale_columns : public GpuTest {};

Problem product(i64 m, i64 n, i64 k, DType d, Update update = Update::set) {
  return {.m = m,
          .n = n,
          .k = k,
          .a = {.type = DType::e4m3},
          .b = {.type = DType::e4m3},
          .d = {.type = d},
          .epilogue = {.scale_a = ScaleMode::block, .scale_b = ScaleMode::vector128, .update = update},
          .scale_a_ld = m + m % 3};
}

std::vector<ProductCase> on_every_kernel() {
  const Schedule ping_pong = Schedule::ping_pong, cooperative = Schedule::cooperative;
  const PlanOverrides kernels[] = {
      {},
      {.schedule = ping_pong, .tile_m = 64, .tile_n = 32},
      {.schedule = ping_pong, .tile_m = 64, .tile_n = 256, .cluster = ClusterShape{1, 2}},
      {.schedule = ping_pong, .tile_m = 128, .tile_n = 128, .store = StorePath::direct},
      {.schedule = ping_pong, .tile_m = 128, .tile_n = 96, .cluster = ClusterShape{1, 1, 2}},
      {.schedule = cooperative, .tile_m = 128, .tile_n = 128, .cluster = ClusterShape{2, 1}},
      {.schedule = cooperative, .tile_m = 128, .tile_n = 160, .splits = 3, .combine = Combine::last_arriver},
      {.schedule = cooperative, .tile_m = 128, .tile_n = 192, .splits = 2, .combine = Combine::separate},
      {.schedule = cooperative, .tile_m = 128, .tile_n = 224, .store = StorePath::direct},
      {.schedule = cooperative, .tile_m = 128, .tile_n = 256, .cluster = ClusterShape{2, 1}}};
  const std::array<i64, 3> sizes[] = {{1, 1040, 1168}, {130, 16, 128}, {333, 720, 2064}};
  std::vector<ProductCase> all;
  for (size_t i = 0; i < std::size(kernels); ++i)
    for (size_t j = 0; j < std::size(sizes); ++j)
      for (const int kind : {0, 1, 2}) {
        PlanOverrides overrides = kernels[i];
        const auto [m, n, k] = sizes[j];
        if (k == 128) overrides.splits.reset(), overrides.combine.reset();
        const bool separate = overrides.combine.value_or(Combine::none) == Combine::separate;
        Problem p = product(m, n, k, kind == 0 ? DType::bf16 : DType::fp32,
                            kind == 1 && !separate ? Update::add : Update::set);
        if (kind == 2) {
          p.epilogue.bias = Bias::column;
          p.epilogue.activation = Activation::relu;
          p.epilogue.residual = true;
        }
        if ((i + j + static_cast<size_t>(kind)) % 4 == 0) p.batch = 2;
        all.push_back({p, overrides});
      }
  for (const int columns : {128, 256}) {
    Problem p = product(333, 704, 1040, DType::e4m3);
    p.epilogue.scale_d = ScaleMode::block;
    all.push_back({p, {.schedule = cooperative, .tile_m = 128, .tile_n = columns}});
  }
  return all;
}

TEST_F(scale_columns, products_by_1x128_of_both_sides_are_exact_on_every_kernel) {
  expect_right(on_every_kernel(), Judge::exact);
}

TEST_F(scale_columns, products_by_1x128_of_both_sides_are_within_their_bounds) {
  std::vector<ProductCase> all;
  for (const Update update : {Update::set, Update::add})
    for (const i64 k : {128, 4096, 32768}) all.push_back({product(1040, 784, k, DType::fp32, update)});
  all.push_back({product(4096, 2048, 8192, DType::bf16)});
  expect_right(all, Judge::bounded);
}

}  // namespace
}  // namespace sluice::testing
