// SPDX-License-Identifier: Apache-2.0
// Gated products and scales of D on the GPU, with every schedule, store path, split and type, and models'
// numbers of tokens. Most results are exact to the bit. SwiGLU must be within its bound, and a scale of D
// must give what the quantiser that it replaces gives. The verifier fills D with poison and checks guards
// around it. To see it fail: give plain/copier.cuh rows in groups of eight, or leave out the second half in
// EpilogueVectors::stage.
#include <sluice/quantize.h>

#include <algorithm>
#include <vector>

#include <sluice/check/verify.h>
#include <sluice/run/driver/memory.h>

#include "gpu.h"

namespace sluice::testing {
namespace {

/// Fast accumulation, because plain_wgmma has no other.
Problem product(i64 m, i64 n, i64 k, DType inputs, DType d) {
  return {.m = m,
          .n = n,
          .k = k,
          .a = {.type = inputs},
          .b = {.type = inputs},
          .d = {.type = d},
          .accumulate = Accumulate::fast};
}

/// A few tiles have no room for a gate beside a bias.
constexpr const char* kNoRoom = "no room for a gate with gelu";

class gated : public GpuTest {};

/// One product per kind of kernel and number of tokens. n / 2 is never a multiple of half a tile, and
/// sometimes not of 16.
std::vector<ProductCase> exact_products() {
  const Schedule ping_pong = Schedule::ping_pong, cooperative = Schedule::cooperative,
                 plain = Schedule::plain, by_groups = Schedule::plain_wgmma;
  const PlanOverrides kernels[] = {
      {.schedule = by_groups},
      {.schedule = by_groups, .tile_n = 16},
      {.schedule = by_groups, .tile_n = 32, .cluster = ClusterShape{1, 1, 4}},
      {.schedule = by_groups, .tile_n = 128},
      {.schedule = plain},
      {.schedule = plain, .tile_n = 16},
      {.schedule = plain, .tile_n = 32, .cluster = ClusterShape{1, 1, 4}},
      {.schedule = ping_pong, .tile_m = 64, .tile_n = 32},
      {.schedule = ping_pong, .tile_m = 64, .tile_n = 112, .store = StorePath::direct},
      {.schedule = ping_pong, .tile_m = 64, .tile_n = 128, .cluster = ClusterShape{1, 2}},
      {.schedule = ping_pong, .tile_m = 64, .tile_n = 64, .cluster = ClusterShape{2, 1}},
      {.schedule = ping_pong, .tile_m = 64, .tile_n = 64, .cluster = ClusterShape{1, 1, 2}},
      {.schedule = ping_pong, .tile_m = 64, .tile_n = 96, .splits = 3, .combine = Combine::last_arriver},
      {.schedule = cooperative, .tile_m = 128, .tile_n = 160, .splits = 2, .combine = Combine::last_arriver},
      {.schedule = cooperative, .tile_m = 256, .tile_n = 192},
  };
  std::vector<ProductCase> all;
  int turn = 0;
  for (const i64 m : {1, 4, 16, 33, 64, 100, 200})
    for (const PlanOverrides& kernel : kernels) {
      if (m > (kernel.schedule == plain ? 64 : kernel.schedule == by_groups ? 128 : m)) continue;
      ++turn;
      const DType inputs[] = {DType::e4m3, DType::bf16, DType::fp16};
      const DType outputs[] = {DType::e4m3, DType::bf16, DType::fp32};
      const i64 widths[] = {1056, 992, 2464};
      Problem p =
          product(m, widths[turn % 3], turn % 2 == 0 ? 1024 : 1104, inputs[turn / 3 % 3], outputs[turn % 3]);
      p.epilogue.gated = true;
      p.epilogue.activation = turn % 2 == 0 ? Activation::none : Activation::relu;
      if (turn % 4 < 2) p.epilogue.bias = Bias::column;
      if (turn % 5 < 2) p.epilogue.scale_b = ScaleMode::vector, p.epilogue.scale_a = ScaleMode::vector;
      if (turn % 5 == 2) p.epilogue.scale_b = p.epilogue.scale_a = ScaleMode::tensor;
      if (p.d.type == DType::e4m3) p.epilogue.scale_d = ScaleMode::tensor;
      if (p.d.type == DType::e4m3 && turn % 4 != 0) p.n += 16;  // TMA cannot store such rows
      if (turn % 7 == 0) p.batch = 2;
      PlanOverrides overrides = kernel;
      if (overrides.tile_n == 16 && m > 16) overrides.tile_n = 64;  // no room for both rings
      all.push_back({p, overrides});
    }
  return all;
}

TEST_F(gated, products_are_exact_on_every_kernel) {
  expect_right(exact_products(), Judge::exact, kNoRoom);
}

TEST_F(gated, activations_are_within_their_bounds) {
  std::vector<ProductCase> all;
  for (const i64 m : {1, 16, 64, 300})
    for (const Activation activation :
         {Activation::silu, Activation::gelu, Activation::none, Activation::clamped_swiglu})
      for (const DType d : {DType::e4m3, DType::bf16}) {
        Problem p = product(m, 1120, 2048, m == 16 ? DType::bf16 : DType::e4m3, d);
        p.epilogue = {.scale_a = ScaleMode::tensor,
                      .scale_b = ScaleMode::vector,
                      .activation = activation,
                      .gated = true};
        if (d == DType::e4m3) p.epilogue.scale_d = ScaleMode::tensor;
        if (m == 64) p.accumulate = Accumulate::promoted;
        all.push_back({p, {}});
      }
  expect_right(all, Judge::bounded, kNoRoom);
}

/// Gates with block scales, block scales of D with and without a gate, and factors of rows, on every
/// schedule, store path and cluster that has them.
std::vector<ProductCase> expert_products() {
  const Schedule ping_pong = Schedule::ping_pong, cooperative = Schedule::cooperative;
  const PlanOverrides kernels[] = {
      {.schedule = ping_pong, .tile_m = 64, .tile_n = 256},
      {.schedule = ping_pong, .tile_m = 64, .tile_n = 256, .cluster = ClusterShape{1, 2}},
      {.schedule = ping_pong, .tile_m = 64, .tile_n = 256, .store = StorePath::direct},
      {.schedule = cooperative, .tile_m = 128, .tile_n = 256},
      {.schedule = cooperative, .tile_m = 128, .tile_n = 256, .cluster = ClusterShape{1, 2}},
      {.schedule = cooperative, .tile_m = 128, .tile_n = 256, .store = StorePath::direct}};
  std::vector<ProductCase> all;
  int turn = 0;
  for (const i64 m : {1, 33, 100, 300})
    for (const PlanOverrides& kernel : kernels)
      for (const bool gated : {false, true})
        for (const bool blocks : {false, true}) {
          ++turn;
          Problem p = product(m, blocks && gated ? 512 : 352, 1104, DType::e4m3, DType::e4m3);
          p.accumulate = Accumulate::promoted;
          p.epilogue = {.activation = turn % 2 == 0 ? Activation::none : Activation::relu,
                        .gated = gated,
                        .scale_d = ScaleMode::block};
          if (blocks) p.epilogue.scale_a = p.epilogue.scale_b = ScaleMode::block;
          if (!blocks && turn % 3 == 0) p.epilogue.scale_a = p.epilogue.scale_b = ScaleMode::vector;
          if (turn % 4 < 2) p.epilogue.bias = Bias::column;
          if (turn % 5 < 2) p.epilogue.row_factors = true;
          if (turn % 7 == 0) p.batch = 2;
          all.push_back({p, kernel});
          if (p.epilogue.bias != Bias::none) continue;  // others have no room for it beside a gate
          p.d.type = turn % 2 == 0 ? DType::bf16 : DType::fp32;
          p.epilogue.scale_d = ScaleMode::none;
          all.push_back({p, kernel});
        }
  return all;
}

TEST_F(gated, products_of_experts_are_exact) {
  expect_right(expert_products(), Judge::exact, kNoRoom);
}

TEST_F(gated, products_of_experts_are_within_their_bounds) {
  std::vector<ProductCase> all = expert_products();
  for (ProductCase& one : all)
    one.problem.epilogue.activation = one.problem.m == 33 ? Activation::none
                                      : one.problem.m == 100 && one.problem.epilogue.gated
                                          ? Activation::clamped_swiglu
                                          : Activation::silu;
  expect_right(all, Judge::bounded, kNoRoom);
}

/// The wide product stores fp32, so the quantiser starts from the values that the epilogue has. Both have
/// whole sums, so their tiles may differ.
TEST_F(gated, block_scales_of_d_are_what_the_quantiser_makes) {
  const i64 m = 131, n = 512, columns = 256, blocks = 2;
  for (const Schedule schedule : {Schedule::ping_pong, Schedule::cooperative}) {
    Problem wide = product(m, n, 384, DType::e4m3, DType::fp32);
    wide.epilogue = {.scale_a = ScaleMode::block,
                     .scale_b = ScaleMode::block,
                     .activation = Activation::silu,
                     .gated = true};
    Problem narrow = wide;
    narrow.d.type = DType::e4m3;
    narrow.epilogue.scale_d = ScaleMode::block;
    const auto verifier = Verifier::create(device());
    ASSERT_TRUE(ok(verifier));
    const auto data = verifier->make_data(wide, {.a = {.magnitude = 1}, .b = {.magnitude = 2}}, nullptr);
    const auto fused = DeviceBuffer::allocate(device(), m * columns),
               apart = DeviceBuffer::allocate(device(), m * columns),
               fused_scales = DeviceBuffer::allocate(device(), 4 * m * blocks),
               apart_scales = DeviceBuffer::allocate(device(), 4 * m * blocks);
    const auto quantizer = Quantizer::create(device(), DType::fp32, Granularity::row_block);
    ASSERT_TRUE(ok(data) && ok(fused) && ok(apart) && ok(fused_scales) && ok(apart_scales) && ok(quantizer));
    const auto run = [&](const Problem& p, void* d) -> Result<void> {
      const auto plan = gemm::plan(p, device().info(), {.schedule = schedule});
      if (!plan) return plan.error();
      const auto kernel = gemm::prepare(device(), *plan);
      if (!kernel) return kernel.error();
      gemm::Args args = data->args();
      args.d = d;
      args.scale_out = static_cast<float*>(fused_scales->data());
      const auto workspace = Workspace::create(device(), plan->workspace_bytes);
      if (!workspace) return workspace.error();
      args.workspace = workspace->view();
      if (const auto done = gemm::launch(*kernel, args, nullptr); !done) return done;
      return synchronize(device());
    };
    ASSERT_TRUE(ok(run(wide, data->args().d)) && ok(run(narrow, fused->data())));
    ASSERT_TRUE(ok(quantizer->launch({m, columns},
                                     {.input = data->args().d,
                                      .output = apart->data(),
                                      .scales = static_cast<float*>(apart_scales->data())},
                                     nullptr)));
    ASSERT_TRUE(ok(synchronize(device())));
    std::vector<u8> x(static_cast<size_t>(m * columns)), y(x.size());
    std::vector<float> of_x(static_cast<size_t>(m * blocks)), of_y(of_x.size());
    ASSERT_TRUE(ok(fused->download(x.data(), m * columns)) && ok(apart->download(y.data(), m * columns)) &&
                ok(fused_scales->download(of_x.data(), 4 * m * blocks)) &&
                ok(apart_scales->download(of_y.data(), 4 * m * blocks)));
    EXPECT_EQ(x, y) << name_of(schedule);
    EXPECT_EQ(of_x, of_y) << name_of(schedule);
    EXPECT_NE(std::count(of_x.begin(), of_x.end(), of_x[0]), m * blocks) << "all the same shows nothing";
  }
}

/// Sums are whole numbers that bf16 can hold, so the quantiser and the epilogue start from equal values. The
/// scale is not a power of two.
TEST_F(gated, a_scale_of_d_is_what_the_quantiser_does_with_it) {
  const i64 n = 1040;
  for (const Schedule schedule :
       {Schedule::plain, Schedule::plain_wgmma, Schedule::ping_pong, Schedule::cooperative}) {
    const i64 m = is_plain(schedule) ? 16 : 130;
    const Problem wide = product(m, n, 64, DType::e4m3, DType::bf16);
    Problem narrow = wide;
    narrow.d.type = DType::e4m3;
    narrow.epilogue.scale_d = ScaleMode::tensor;
    const auto verifier = Verifier::create(device());
    ASSERT_TRUE(ok(verifier));
    const DataSpec spec{.a = {.magnitude = 1}, .b = {.magnitude = 2}};
    const auto data = verifier->make_data(wide, spec, nullptr);
    const auto fused = DeviceBuffer::allocate(device(), m * n),
               apart = DeviceBuffer::allocate(device(), m * n);
    const auto scale = DeviceBuffer::allocate(device(), 4);
    const auto quantizer = Quantizer::create(device(), DType::bf16, Granularity::tensor);
    ASSERT_TRUE(ok(data) && ok(fused) && ok(apart) && ok(scale) && ok(quantizer));
    const float factor = 0.37f;
    ASSERT_TRUE(ok(scale->upload(&factor, 4)) && ok(fused->fill(0xff, nullptr)) &&
                ok(apart->fill(0xff, nullptr)));
    const auto run = [&](const Problem& p, void* d) -> Result<void> {
      const auto plan = gemm::plan(p, device().info(), {.schedule = schedule});
      if (!plan) return plan.error();
      const auto kernel = gemm::prepare(device(), *plan);
      if (!kernel) return kernel.error();
      gemm::Args args = data->args();
      args.d = d;
      args.scale_d = static_cast<const float*>(scale->data());
      const auto workspace = Workspace::create(device(), plan->workspace_bytes);
      if (!workspace) return workspace.error();
      args.workspace = workspace->view();
      if (const auto done = gemm::launch(*kernel, args, nullptr); !done) return done;
      return synchronize(device());
    };
    ASSERT_TRUE(ok(run(wide, data->args().d)) && ok(run(narrow, fused->data())));
    ASSERT_TRUE(ok(quantizer->launch({m, n},
                                     {.input = data->args().d,
                                      .output = apart->data(),
                                      .scales = static_cast<float*>(scale->data()),
                                      .scale_given = true},
                                     nullptr)));
    ASSERT_TRUE(ok(synchronize(device())));
    std::vector<u8> x(static_cast<size_t>(m * n)), y(x.size());
    ASSERT_TRUE(ok(fused->download(x.data(), m * n)) && ok(apart->download(y.data(), m * n)));
    EXPECT_EQ(x, y) << name_of(schedule);
    EXPECT_NE(std::count(x.begin(), x.end(), x[0]), m * n) << "all the same shows nothing";
  }
}

}  // namespace
}  // namespace sluice::testing
