// SPDX-License-Identifier: Apache-2.0
// Dense products after a launch that releases them before it writes A, its scales, C or the D they add to,
// and after one that reads D late. Covers every schedule, cluster and combination of splits, with each wait.
// To see it fail: take a wait out of kernels/plain.cuh or gemm.cuh (and Module::check_waits).
// overlap_contract's own test shows that this is detected.
#include <cstdio>

#include "gpu.h"
#include "overlap_contract.h"

namespace sluice::testing {
namespace {

struct Shape {
  Problem problem;
  PlanOverrides overrides;
};

Problem of(i64 m, i64 n, i64 k, DType type, bool residual = false) {
  Problem p{.m = m, .n = n, .k = k, .a = {.type = type}, .b = {.type = type}, .d = {.type = DType::bf16}};
  if (is_fp8(type)) p.epilogue.scale_a = p.epilogue.scale_b = ScaleMode::tensor;
  p.accumulate = Accumulate::fast;  // plain_wgmma keeps no others
  p.epilogue.residual = residual;
  return p;
}

/// SwiGLU with a scale of D.
Problem gated(Problem p) {
  p.epilogue.gated = true;
  p.epilogue.activation = Activation::silu;
  if (is_fp8(p.a.type)) p.d.type = DType::e4m3, p.epilogue.scale_d = ScaleMode::tensor;
  return p;
}

/// Scales come from quantisers: scales of A are no weights, and are read after the wait.
Problem scaled(Problem p, ScaleMode mode) {
  p.epilogue.scale_a = p.epilogue.scale_b = mode;
  if (mode == ScaleMode::vector) p.epilogue.bias = Bias::column;
  return p;
}
Problem batched(Problem p, i64 batch) {
  p.batch = batch;
  return p;
}
Problem added(Problem p) {
  p.epilogue.update = Update::add;
  p.d.type = DType::fp32;
  return p;
}

class gemm_overlap : public GpuTest {
 protected:
  Result<DeviceBuffer> filled(i64 bytes, u8 value) {
    Result<DeviceBuffer> memory = DeviceBuffer::allocate(device(), bytes);
    if (memory)
      if (Result<void> done = memory->fill(value, nullptr); !done) return done.error();
    return memory;
  }

  /// `alone` is the kernel of this plan without overlap.
  void expect_contract(const Plan& plan, const gemm::Kernel& chained, const gemm::Kernel& alone) {
    const Problem& p = plan.problem;
    const i64 element = bytes_of(p.a.type);
    constexpr u8 kSmall = 0x3c;  // 1.5 in e4m3, 0.0115 in bf16: only A makes sums differ between tiles
    const i64 d_bytes = p.batch * p.m * p.d.ld * bytes_of(p.d.type);
    const auto a = filled(p.batch * p.m * p.a.ld * element, kSmall);
    const auto b = filled(p.batch * p.n * p.b.ld * element, kSmall);
    const auto c = filled(d_bytes, kSmall), d = filled(d_bytes, 0);
    constexpr u8 kScale = 0x3f;  // 0.747
    const auto scale_a = filled(4 * std::max<i64>(scale_a_count(p), 1), kScale);
    const auto scale_b = filled(4 * std::max<i64>(scale_b_count(p), 1), kScale);
    const auto scale_d = filled(4, kScale), bias = filled(4 * p.n, kSmall);
    const auto workspace = Workspace::create(device(), plan.workspace_bytes);
    ASSERT_TRUE(ok(a) && ok(b) && ok(c) && ok(d) && ok(workspace));
    ASSERT_TRUE(ok(scale_a) && ok(scale_b) && ok(scale_d) && ok(bias));
    const gemm::Args args{.a = a->data(),
                          .b = b->data(),
                          .c = c->data(),
                          .d = d->data(),
                          .scale_a = static_cast<const float*>(scale_a->data()),
                          .scale_b = static_cast<const float*>(scale_b->data()),
                          .scale_d = static_cast<const float*>(scale_d->data()),
                          .bias = bias->data(),
                          .beta = p.epilogue.residual ? 1.0f : 0.0f,
                          .workspace = workspace->view(),
                          .prefetch = {b->data(), b->bytes()},
                          .hand_off = {b->data(), b->bytes()}};
    const auto launching = [&](const gemm::Kernel& kernel, const DeviceBuffer& input) {
      return Chained{.launch = [&args, kernel](Stream stream) { return gemm::launch(kernel, args, stream); },
                     .input = &input,
                     .outputs = {&*d}};
    };
    const struct {
      const char* name;
      const DeviceBuffer& input;
      bool read;
    } inputs[] = {{"A", *a, true},
                  {"scale_a", *scale_a, scale_a_count(p) > 0},
                  {"C", *c, p.epilogue.residual},
                  {"D", *d, p.epilogue.update == Update::add}};
    for (const auto& [name, input, read] : inputs)
      for (const bool in_graph : {false, true}) {
        if (!read || (in_graph && &input != &*a)) continue;
        const Result<i64> differing =
            bytes_that_differ(device(), launching(alone, input), launching(chained, input), in_graph);
        ASSERT_TRUE(ok(differing));
        EXPECT_EQ(*differing, 0) << short_name(plan.config) << ", late " << name
                                 << (in_graph ? ", in a graph" : "");
      }
    const Result<i64> early = bytes_written_early(device(), launching(chained, *a));
    ASSERT_TRUE(ok(early));
    EXPECT_EQ(*early, 0) << short_name(plan.config);
    EXPECT_TRUE(ok(workspace->verify()));
  }
};

TEST_F(gemm_overlap, keeps_the_contract_with_every_schedule_cluster_and_split) {
  const Schedule ping_pong = Schedule::ping_pong, cooperative = Schedule::cooperative,
                 plain = Schedule::plain, by_groups = Schedule::plain_wgmma;
  const Shape shapes[] = {
      {of(1, 6144, 4096, DType::e4m3), {.schedule = plain}},
      {of(16, 28672, 4096, DType::e4m3), {.schedule = plain}},  // more CTAs than fit
      {of(13, 1000, 8192, DType::bf16, true), {.schedule = plain}},
      {of(16, 512, 8192, DType::e4m3), {.schedule = plain, .cluster = ClusterShape{1, 1, 4}}},
      {of(1, 6144, 4096, DType::e4m3), {.schedule = by_groups}},
      {of(16, 28672, 4096, DType::e4m3), {.schedule = by_groups}},
      {of(13, 1000, 8192, DType::bf16, true), {.schedule = by_groups, .tile_n = 32}},
      {of(16, 512, 8192, DType::e4m3), {.schedule = by_groups, .cluster = ClusterShape{1, 1, 4}}},
      {gated(of(16, 28672, 4096, DType::e4m3)), {.schedule = by_groups}},
      {of(64, 4096, 4096, DType::e4m3), {.schedule = ping_pong}},
      {of(64, 28672, 1024, DType::e4m3), {.schedule = ping_pong, .cluster = ClusterShape{1, 4}}},
      {of(64, 4096, 8192, DType::e4m3), {.schedule = ping_pong, .cluster = ClusterShape{1, 1, 2}}},
      {of(300, 520, 192, DType::bf16, true), {.schedule = ping_pong, .cluster = ClusterShape{2, 1}}},
      {of(512, 1024, 512, DType::bf16), {.schedule = cooperative, .cluster = ClusterShape{2, 1}}},
      {of(128, 256, 65536, DType::bf16),
       {.schedule = cooperative, .splits = 16, .combine = Combine::last_arriver}},
      {of(200, 8192, 1024, DType::e4m3), {.schedule = cooperative, .swapped = true}},
      {of(300, 1024, 512, DType::bf16),
       {.schedule = ping_pong, .cluster = ClusterShape{2, 1}, .swapped = true}},
      {gated(of(16, 28672, 4096, DType::e4m3)), {.schedule = plain}},
      {gated(of(16, 28672, 4096, DType::e4m3)), {.schedule = ping_pong}},
      {gated(of(64, 28672, 1024, DType::e4m3)), {.schedule = ping_pong, .cluster = ClusterShape{1, 4}}},
      {gated(of(512, 1024, 512, DType::bf16)), {.schedule = cooperative, .cluster = ClusterShape{2, 1}}},
      {scaled(of(64, 4096, 4096, DType::e4m3), ScaleMode::block), {.schedule = ping_pong}},
      {scaled(of(300, 1024, 1024, DType::e4m3), ScaleMode::block),
       {.schedule = cooperative, .cluster = ClusterShape{2, 1}}},
      {scaled(of(64, 4096, 4096, DType::e4m3), ScaleMode::vector), {.schedule = ping_pong}},
      {scaled(of(16, 4096, 4096, DType::e4m3), ScaleMode::vector), {.schedule = by_groups}},
      {scaled(of(16, 4096, 4096, DType::e4m3), ScaleMode::vector), {.schedule = plain}},
      {batched(of(130, 512, 1024, DType::bf16), 3), {.schedule = cooperative}},
      {added(of(128, 256, 8192, DType::bf16)), {.schedule = cooperative}},
  };
  std::vector<Plan> plans;  // pairs: with overlap and without
  for (const Shape& shape : shapes)
    for (const Wait wait : {Wait::first, Wait::weights_first})
      for (const Overlap& way : {Overlap{.trigger = Trigger::at_start},
                                 Overlap{.trigger = Trigger::after_loads, .spacing = Spacing::registers}}) {
        PlanOverrides overrides = shape.overrides;
        overrides.overlap = {.wait = wait, .trigger = way.trigger, .spacing = way.spacing};
        const Result<Plan> plan = gemm::plan(shape.problem, device().info(), overrides);
        ASSERT_TRUE(ok(plan));
        plans.push_back(*plan);
        plans.push_back(*plan);
        plans.back().config.overlap = {};
      }
  const auto kernels = gemm::prepare(device(), plans);
  for (size_t i = 0; i < plans.size(); i += 2) {
    ASSERT_TRUE(ok(kernels[i]) && ok(kernels[i + 1])) << short_name(plans[i].config);
    expect_contract(plans[i], *kernels[i], *kernels[i + 1]);
  }
}

}  // namespace
}  // namespace sluice::testing
