// SPDX-License-Identifier: Apache-2.0
// Dense products behind a launch that lets them begin before it writes A, and behind one that reads D late:
// every schedule, cluster and combination of splits, with each wait. To see it fail: take a wait out of
// kernels/plain.cuh or gemm.cuh (and Module::check_waits): overlap_contract's own test shows that it sees
// that.
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

class gemm_overlap : public GpuTest {
 protected:
  Result<DeviceBuffer> filled(i64 bytes, u8 value) {
    Result<DeviceBuffer> memory = DeviceBuffer::allocate(device(), bytes);
    if (memory)
      if (Result<void> done = memory->fill(value, nullptr); !done) return done.error();
    return memory;
  }

  void expect_contract(const Shape& shape, const Overlap& overlap) {
    PlanOverrides overrides = shape.overrides;
    overrides.overlap = overlap;
    const Result<Plan> plan = gemm::plan(shape.problem, device().info(), overrides);
    ASSERT_TRUE(ok(plan));
    Plan without = *plan;
    without.config.overlap = {};
    const auto chained = gemm::prepare(device(), *plan), alone = gemm::prepare(device(), without);
    ASSERT_TRUE(ok(chained) && ok(alone));
    const Problem& p = plan->problem;
    const i64 element = bytes_of(p.a.type);
    constexpr u8 kSmall = 0x3c;  // 1.5 in e4m3, 0.0115 in bf16: sums differ from tile to tile by A alone
    const auto a = filled(p.m * p.a.ld * element, kSmall), b = filled(p.n * p.b.ld * element, kSmall);
    const auto c = filled(p.m * p.d.ld * 2, kSmall), d = filled(p.m * p.d.ld * 2, 0);
    const auto one = filled(4, 0x3f);  // 0.747
    const auto workspace = Workspace::create(device(), plan->workspace_bytes);
    ASSERT_TRUE(ok(a) && ok(b) && ok(c) && ok(d) && ok(one) && ok(workspace));
    const gemm::Args args{.a = a->data(),
                          .b = b->data(),
                          .c = c->data(),
                          .d = d->data(),
                          .scale_a = static_cast<const float*>(one->data()),
                          .scale_b = static_cast<const float*>(one->data()),
                          .scale_d = static_cast<const float*>(one->data()),
                          .beta = p.epilogue.residual ? 1.0f : 0.0f,
                          .workspace = workspace->view(),
                          .prefetch = {b->data(), b->bytes()},
                          .hand_off = {b->data(), b->bytes()}};
    const auto launching = [&](const gemm::Kernel& kernel) {
      return Chained{.launch = [&args, kernel](Stream stream) { return gemm::launch(kernel, args, stream); },
                     .input = &*a,
                     .outputs = {&*d}};
    };
    for (const bool in_graph : {false, true}) {
      const Result<i64> differing =
          bytes_that_differ(device(), launching(*alone), launching(*chained), in_graph);
      ASSERT_TRUE(ok(differing));
      EXPECT_EQ(*differing, 0) << short_name(plan->config) << (in_graph ? ", in a graph" : "");
    }
    const Result<i64> early = bytes_written_early(device(), launching(*chained));
    ASSERT_TRUE(ok(early));
    EXPECT_EQ(*early, 0) << short_name(plan->config);
    EXPECT_TRUE(ok(workspace->verify()));
  }
};

TEST_F(gemm_overlap, keeps_the_contract_with_every_schedule_cluster_and_split) {
  const Schedule ping_pong = Schedule::ping_pong, cooperative = Schedule::cooperative,
                 plain = Schedule::plain, by_groups = Schedule::plain_wgmma;
  const Shape shapes[] = {
      {of(1, 6144, 4096, DType::e4m3), {.schedule = plain}},
      {of(16, 28672, 4096, DType::e4m3), {.schedule = plain}},  // more CTAs than there is room for
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
  };
  for (const Shape& shape : shapes)
    for (const Wait wait : {Wait::first, Wait::weights_first})
      for (const Overlap& way : {Overlap{.trigger = Trigger::at_start},
                                 Overlap{.trigger = Trigger::after_loads, .spacing = Spacing::registers}})
        expect_contract(shape, {.wait = wait, .trigger = way.trigger, .spacing = way.spacing});
}

}  // namespace
}  // namespace sluice::testing
