// SPDX-License-Identifier: Apache-2.0
#include "contract_pool.h"

#include <sluice/conv.h>
#include <sluice/try.h>

#include "class_kinds.h"
#include "packed_pool.h"
#include "random_case.h"

namespace sluice::testing {
namespace {

struct Shape {
  Problem problem;
  PlanOverrides overrides;
};

constexpr Schedule kPingPong = Schedule::ping_pong, kCooperative = Schedule::cooperative,
                   kPlain = Schedule::plain, kByGroups = Schedule::plain_wgmma;

Problem of(i64 m, i64 n, i64 k, DType type, bool residual = false) {
  Problem p{.m = m, .n = n, .k = k, .a = {.type = type}, .b = {.type = type}, .d = {.type = DType::bf16}};
  p.accumulate = Accumulate::fast;  // plain_wgmma cannot promote
  if (is_fp8(type)) p.epilogue.scale_a = p.epilogue.scale_b = ScaleMode::tensor;
  p.epilogue.residual = residual;
  return p;
}

/// Makes the product gated (SwiGLU) and, with fp8 inputs, gives it a scale of D.
Problem gated(Problem p) {
  p.epilogue.gated = true;
  p.epilogue.activation = Activation::silu;
  if (is_fp8(p.a.type)) p.d.type = DType::e4m3, p.epilogue.scale_d = ScaleMode::tensor;
  return p;
}

/// Gives the product scales of A and B, as quantisers compute them. A's scales are not weights, so the kernel
/// must read them after the wait.
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
/// Adds to D in any order. The test data are the same in every slice, so the order does not change a bit.
Problem added_in_any_order(Problem p) {
  p = added(p);
  p.deterministic = false;
  return p;
}

/// Plans each shape with each wait and with two triggers. A wgrad has no weights, so Wait::weights_first is
/// skipped.
Result<std::vector<Plan>> planned(const std::vector<Shape>& shapes, const DeviceInfo& device) {
  std::vector<Plan> plans;
  for (const Shape& shape : shapes)
    for (const Wait wait : {Wait::first, Wait::weights_first})
      for (const Overlap& way : {Overlap{.trigger = Trigger::at_start},
                                 Overlap{.trigger = Trigger::after_loads, .spacing = Spacing::registers}}) {
        if (wait == Wait::weights_first && shape.problem.conv.op == ConvOp::wgrad) continue;
        PlanOverrides overrides = shape.overrides;
        overrides.overlap = {.wait = wait, .trigger = way.trigger, .spacing = way.spacing};
        SLUICE_TAKE(Plan plan, gemm::plan(shape.problem, device, overrides));
        plans.push_back(std::move(plan));
      }
  return plans;
}

/// A convolution with a 3x3 filter, padding and this stride.
Conv conv_of(ConvOp op, int stride) {
  return {.op = op,
          .images = 4,
          .channels = 64,
          .filters = 128,
          .size = {20, 18, 1},
          .filter = {3, 3, 1},
          .stride = {stride, stride, 1},
          .padding = {1, 1, 0},
          .padding_after = {1, 1, 0}};
}

/// Adds missing field values to a pool. Only kernels that wait for their prerequisites are added.
template <class Config>
void add_completed(std::vector<PackedConfig>& pool, std::vector<Config> some) {
  packed_switches<Config>([](const Config& c) { return c.overlap.wait != Wait::none; }).complete(some);
  pool.insert(pool.end(), some.begin(), some.end());
}

}  // namespace

Result<std::vector<Plan>> contract_role_plans(const DeviceInfo& device) {
  return planned(
      {
          {of(1, 6144, 4096, DType::e4m3), {.schedule = kPlain}},
          {of(16, 28672, 4096, DType::e4m3), {.schedule = kPlain}},  // more CTAs than are resident at once
          {of(13, 1000, 8192, DType::bf16, true), {.schedule = kPlain}},
          {of(16, 512, 8192, DType::e4m3), {.schedule = kPlain, .cluster = ClusterShape{1, 1, 4}}},
          {of(1, 6144, 4096, DType::e4m3), {.schedule = kByGroups}},
          {of(16, 28672, 4096, DType::e4m3), {.schedule = kByGroups}},
          {of(13, 1000, 8192, DType::bf16, true), {.schedule = kByGroups, .tile_n = 32}},
          {of(16, 512, 8192, DType::e4m3), {.schedule = kByGroups, .cluster = ClusterShape{1, 1, 4}}},
          {gated(of(16, 28672, 4096, DType::e4m3)), {.schedule = kByGroups}},
          {of(64, 4096, 4096, DType::e4m3), {.schedule = kPingPong}},
          {of(64, 28672, 1024, DType::e4m3), {.schedule = kPingPong, .cluster = ClusterShape{1, 4}}},
          {of(64, 4096, 8192, DType::e4m3), {.schedule = kPingPong, .cluster = ClusterShape{1, 1, 2}}},
          {of(300, 520, 192, DType::bf16, true), {.schedule = kPingPong, .cluster = ClusterShape{2, 1}}},
          {of(512, 1024, 512, DType::bf16), {.schedule = kCooperative, .cluster = ClusterShape{2, 1}}},
          {of(128, 256, 65536, DType::bf16),
           {.schedule = kCooperative, .splits = 16, .combine = Combine::last_arriver}},
          {of(200, 8192, 1024, DType::e4m3), {.schedule = kCooperative, .swapped = true}},
          {of(300, 1024, 512, DType::bf16),
           {.schedule = kPingPong, .cluster = ClusterShape{2, 1}, .swapped = true}},
          {gated(of(16, 28672, 4096, DType::e4m3)), {.schedule = kPlain}},
          {gated(of(16, 28672, 4096, DType::e4m3)), {.schedule = kPingPong}},
          {gated(of(64, 28672, 1024, DType::e4m3)), {.schedule = kPingPong, .cluster = ClusterShape{1, 4}}},
          {gated(of(512, 1024, 512, DType::bf16)), {.schedule = kCooperative, .cluster = ClusterShape{2, 1}}},
          {scaled(of(64, 4096, 4096, DType::e4m3), ScaleMode::block), {.schedule = kPingPong}},
          {scaled(of(300, 1024, 1024, DType::e4m3), ScaleMode::block),
           {.schedule = kCooperative, .cluster = ClusterShape{2, 1}}},
          {scaled(of(64, 4096, 4096, DType::e4m3), ScaleMode::vector), {.schedule = kPingPong}},
          {scaled(of(16, 4096, 4096, DType::e4m3), ScaleMode::vector), {.schedule = kByGroups}},
          {scaled(of(16, 4096, 4096, DType::e4m3), ScaleMode::vector), {.schedule = kPlain}},
          {batched(of(130, 512, 1024, DType::bf16), 3), {.schedule = kCooperative}},
          {added(of(128, 256, 8192, DType::bf16)), {.schedule = kCooperative}},
          {added_in_any_order(of(128, 256, 1024, DType::bf16)),
           {.schedule = kCooperative,
            .tile_m = 128,
            .tile_n = 128,
            .cluster = ClusterShape{1, 1},
            .splits = 2,
            .combine = Combine::add}},
      },
      device);
}

Result<std::vector<Plan>> contract_strided_plans(const DeviceInfo& device) {
  std::vector<Shape> shapes;
  for (const Schedule schedule : {kPingPong, kCooperative})
    for (const Major major : {Major::k, Major::mn})
      for (const int operands : {1, 2, 3}) {  // bit mask: A, B, both
        Problem p = of(296, 520, 320, DType::bf16, operands == 3);
        p.a.major = p.b.major = major;
        if ((operands & 1) != 0) p.a.unaligned = true, p.a.ld = inner_extent(p.a, p.m, p.k) + 3;
        if ((operands & 2) != 0) p.b.unaligned = true, p.b.ld = inner_extent(p.b, p.n, p.k) + 5;
        shapes.push_back({p, {.schedule = schedule}});
      }
  return planned(shapes, device);
}

Result<std::vector<Plan>> contract_gathering_plans(const DeviceInfo& device) {
  std::vector<Shape> shapes;
  for (const Schedule schedule : {kPingPong, kCooperative})
    for (const auto& [op, stride] : {std::pair{ConvOp::fprop, 1},
                                     {ConvOp::fprop, 2},
                                     {ConvOp::dgrad, 1},
                                     {ConvOp::dgrad, 2},
                                     {ConvOp::wgrad, 1}}) {
      const DType output = op == ConvOp::wgrad ? DType::fp32 : DType::bf16;
      SLUICE_TAKE(const Problem p, conv::problem(conv_of(op, stride), DType::bf16, output));
      PlanOverrides overrides{.schedule = schedule};
      if (op == ConvOp::wgrad && schedule == kCooperative)
        overrides.splits = 3, overrides.combine = Combine::last_arriver;
      shapes.push_back({p, overrides});
    }
  return planned(shapes, device);
}

Result<std::vector<Plan>> contract_width_plans(const DeviceInfo& device) {
  return planned(
      {
          {of(13, 1000, 4096, DType::bf16, true), {.schedule = kByGroups, .tile_n = 40}},
          {of(32, 1000, 4096, DType::e4m3), {.schedule = kByGroups, .tile_n = 72}},
          {of(8, 4000, 2048, DType::e4m3), {.schedule = kByGroups, .tile_n = 136}},
          {of(16, 4000, 4096, DType::bf16),
           {.schedule = kByGroups, .tile_n = 56, .cluster = ClusterShape{1, 1, 2}}},
          {of(64, 1000, 512, DType::bf16), {.schedule = kPingPong, .tile_n = 40, .store = StorePath::direct}},
          {of(200, 1000, 512, DType::bf16), {.schedule = kCooperative, .tile_n = 200, .swapped = true}},
      },
      device);
}

Result<std::vector<Plan>> contract_field_plans(const DeviceInfo& device) {
  std::vector<KernelConfig> pool;
  for (const auto& plans : {contract_role_plans(device), contract_strided_plans(device),
                            contract_gathering_plans(device), contract_width_plans(device)}) {
    if (!plans) return plans.error();
    for (const Plan& plan : *plans) pool.push_back(plan.config);
  }
  const size_t given = pool.size();
  for (const DenseKind& kind : dense_kinds())
    // Slices that are added in any order must hold equal data, as above, so Combine::add is left out here.
    kind.cover_of_switches([](const KernelConfig& c) {
          return c.overlap.wait != Wait::none && c.combine != Combine::add && !c.scale_a_columns;
        })
        .complete(pool);
  std::vector<Plan> plans;
  for (size_t i = given; i < pool.size(); ++i) {
    const KernelConfig& config = pool[i];
    if (config.conv.op == ConvOp::none) {
      const i64 m = is_plain(config.schedule) ? 2 * config.tile.m - 3 : 296;
      plans.push_back(plan_for(problem_for(config, m, 520, 1024), config, device));
      continue;
    }
    std::vector<Plan> gathering = conv_plans(config, device, 0);
    if (gathering.empty())
      return Error{ErrorCode::internal, "no small convolution runs on " + to_string(config)};
    plans.push_back(std::move(gathering.front()));
  }
  return plans;
}

PackedProblem contract_problem(const PackedConfig& config) {
  return problem_of(config, extents_of(config).tokens + 5, 1280, 2048);
}

std::vector<PackedConfig> contract_packed_pool() {
  constexpr Overlap kFirst{Wait::first, Trigger::at_start},
      kEarly{Wait::weights_first, Trigger::after_loads, Spacing::registers};
  constexpr WeightFormat kBytes{.order = FragmentOrder::byte};
  std::vector<PackedConfig> pool;
  add_completed<NarrowConfig>(pool, {{.x = DType::bf16, .warps = 4, .overlap = kFirst},
                                     {.token_blocks = 2, .stages = 2, .parts = 2, .overlap = kEarly},
                                     {.weights = kMxfp4, .x = DType::bf16, .warps = 4, .overlap = kEarly}});
  add_completed<StripConfig>(
      pool, {{.weights = {},
              .x = DType::bf16,
              .tokens = 24,
              .strips = 2,
              .k_groups = 2,
              .stages = 4,
              .overlap = kFirst},
             {.weights = {},
              .x = DType::fp16,
              .tokens = 104,
              .strips = 1,
              .parts = 2,
              .stages = 4,
              .overlap = kEarly},
             {.weights = kMxfp4,
              .x = DType::bf16,
              .tokens = 24,
              .strips = 1,
              .k_groups = 2,
              .stages = 4,
              .overlap = kEarly},
             {.weights = kBytes, .tokens = 40, .strips = 2, .parts = 2, .overlap = kEarly},
             {.weights = kBytes, .tokens = 72, .strips = 1, .k_groups = 2, .overlap = kFirst}});
  add_completed<WideConfig>(
      pool,
      {{.x = DType::bf16, .tokens = 72, .x_stages = 4, .w_stages = 2, .overlap = kFirst},
       {.tokens = 80, .cluster_n = 2, .x_stages = 4, .w_stages = 2, .overlap = kEarly},
       {.tokens = 112, .x_stages = 4, .w_stages = 2, .overlap = kEarly},
       {.weights = kMxfp4, .x = DType::bf16, .tokens = 72, .x_stages = 4, .w_stages = 2, .overlap = kFirst}});
  return pool;
}

}  // namespace sluice::testing
