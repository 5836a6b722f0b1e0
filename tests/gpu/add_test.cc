// SPDX-License-Identifier: Apache-2.0
// Products that are added to D. All data are whole numbers, the old D too, so every result is exact in any
// order. Cases: partial tiles, odd rows with direct stores, ordered and unordered splits, clusters along k,
// and batches. Also gradients accumulated over many launches, and cases that must not change D. With real
// data, results are within the bound in any order, and have the same bits on every run in a fixed order.
// verify_kernels_test proves on a CPU that the check finds a product that is added never, twice, or over the
// old D.
#include <cstring>

#include <sluice/run/driver/events.h>
#include <sluice/run/driver/memory.h>

#include "batch_runner.h"
#include "gpu.h"

namespace sluice::testing {
namespace {

constexpr i64 kArenaBytes = i64{256} << 20;

struct Shape {
  i64 m, n, k;
  i64 batch = 1;
};
/// Shapes smaller than a tile, partial tiles on every side, rows of D that TMA cannot address, and a k long
/// enough to split.
constexpr Shape kShapes[] = {{1, 8, 64},        {17, 4, 200},     {64, 64, 64},       {130, 100, 1000},
                             {300, 1, 700},     {129, 99, 1500},  {256, 512, 4096},   {200, 257, 2048, 3},
                             {512, 384, 16384}, {77, 1000, 5000}, {1024, 1024, 2048}, {128, 128, 20000, 2}};

Problem gradient(const Shape& shape, DType input, bool deterministic) {
  Problem p{.m = shape.m, .n = shape.n, .k = shape.k, .batch = shape.batch};
  p.a = {.type = input, .ld = ceil_div(shape.k, i64{16}) * 16};
  p.b = {.type = input, .ld = ceil_div(shape.k, i64{16}) * 16};
  p.d.type = DType::fp32;
  p.epilogue.update = Update::add;
  p.accumulate = Accumulate::fast;
  p.deterministic = deterministic;
  return p;
}

/// Returns the planner's default, each way to split, both schedules, and direct stores where TMA stores are
/// possible.
std::vector<PlanOverrides> ways() {
  const auto with = [](Schedule schedule, int m, int n) {
    return PlanOverrides{.schedule = schedule, .tile_m = m, .tile_n = n, .cluster = ClusterShape{1, 1}};
  };
  std::vector<PlanOverrides> all(1);
  for (const PlanOverrides& base :
       {with(Schedule::ping_pong, 64, 64), with(Schedule::cooperative, 128, 128)}) {
    PlanOverrides o = base;
    all.push_back(o);
    o.store = StorePath::direct;
    all.push_back(o);
    for (const int splits : {2, 3, 8}) {
      o = base;
      o.splits = splits;
      all.push_back(o);
      o.store = StorePath::direct;
      all.push_back(o);
    }
    o = base;
    o.cluster = ClusterShape{1, 1, 2};
    all.push_back(o);
    o.splits = 2;
    all.push_back(o);
  }
  return all;
}

class added : public GpuTest {
 protected:
  Workspace make_workspace() {
    auto workspace = Workspace::create(device());
    EXPECT_TRUE(ok(workspace));
    return *workspace;
  }
  gemm::Kernel kernel_of(const Problem& problem, const PlanOverrides& o = {}) {
    const auto plan = gemm::plan(problem, device().info(), o);
    EXPECT_TRUE(ok(plan));
    const auto kernel = gemm::prepare(device(), *plan);
    EXPECT_TRUE(ok(kernel));
    return *kernel;
  }
};

TEST_F(added, whole_numbers_are_exact_in_every_way_and_order) {
  auto runner = BatchRunner::create(device(), 50, kArenaBytes);
  ASSERT_TRUE(ok(runner));
  int in_parts = 0, meeting = 0, direct = 0, refused = 0;
  u64 seed = 0;
  std::vector<Plan> plans;
  std::vector<u64> seeds;
  for (const Shape& shape : kShapes)
    for (const DType input : {DType::bf16, DType::e4m3})
      for (const bool deterministic : {true, false})
        for (const PlanOverrides& o : ways()) {
          Problem p = gradient(shape, input, deterministic);
          ++seed;
          if (is_fp8(input)) p.epilogue.scale_a = ScaleMode::vector, p.epilogue.scale_b = ScaleMode::tensor;
          const auto plan = gemm::plan(p, device().info(), o);
          if (!plan) {  // there are more slices than k-tiles
            ++refused;
            continue;
          }
          in_parts += plan->config.combine == Combine::add;
          meeting += uses_workspace(plan->config);
          direct += plan->config.store == StorePath::direct;
          plans.push_back(*plan);
          seeds.push_back(seed);
        }
  const auto kernels = gemm::prepare(device(), plans);
  for (size_t i = 0; i < plans.size(); ++i) {
    const std::string name = short_name(plans[i].config) + " seed " + std::to_string(seeds[i]);
    ASSERT_TRUE(ok(kernels[i])) << name;
    const auto data = exact_data(plans[i].problem, seeds[i]);
    ASSERT_TRUE(ok(runner->run(*kernels[i], data, Judge::exact, name))) << name;
  }
  ASSERT_TRUE(ok(runner->flush()));
  for (const Failure& failure : runner->failures()) ADD_FAILURE() << describe(failure);
  EXPECT_GT(in_parts, 50);
  EXPECT_GT(meeting, 50);
  EXPECT_GT(direct, 50);
  record("cases", runner->passed());
  record("kernels", static_cast<i64>(plans.size()));
  std::printf("%d problems exact, %d in parts, %d that meet, %d direct; %d ways refused\n", runner->passed(),
              in_parts, meeting, direct, refused);
}

/// Adds +x and -x in turn many times. The data are whole numbers, so D returns to its start; a lost or
/// doubled addition would stay visible.
TEST_F(added, many_launches_add_up_and_cancel) {
  const auto verifier = Verifier::create(device());
  ASSERT_TRUE(ok(verifier));
  const Workspace workspace = make_workspace();
  for (const bool deterministic : {true, false})
    for (const i64 n : {256, 255}) {
      const Problem p = gradient({192, n, 8192}, DType::bf16, deterministic);
      PlanOverrides o{.schedule = Schedule::cooperative, .tile_m = 128, .tile_n = 64};
      o.cluster = ClusterShape{1, 1};
      o.splits = 6;
      const gemm::Kernel kernel = kernel_of(p, o);
      const auto data = verifier->make_data(p, exact_data(p, 3), nullptr);
      ASSERT_TRUE(ok(data));
      gemm::Args args = data->args();
      args.workspace = workspace.view();
      for (int i = 0; i < 101; ++i) {
        ASSERT_TRUE(ok(gemm::launch(kernel, args, nullptr)));
        args.alpha = -args.alpha;
      }
      const auto odd = verifier->check(*data, {.judge = Judge::exact}, nullptr);
      ASSERT_TRUE(ok(odd));
      EXPECT_TRUE(is_right(*odd)) << describe(*odd);
      ASSERT_TRUE(ok(gemm::launch(kernel, args, nullptr)));
      const auto even = verifier->check(*data, {.judge = Judge::unwritten}, nullptr);
      ASSERT_TRUE(ok(even));
      EXPECT_TRUE(is_right(*even)) << "D is not what it was: " << describe(*even);
    }
}

TEST_F(added, nothing_to_add_leaves_d_alone) {
  const auto verifier = Verifier::create(device());
  ASSERT_TRUE(ok(verifier));
  for (const i64 k : {i64{0}, i64{512}}) {
    const Problem p = gradient({100, 60, k}, DType::bf16, true);
    DataSpec spec = exact_data(p, 1);
    spec.a.kind = spec.b.kind = Fill::poison;
    if (k > 0) spec.alpha = 0.0f;
    const auto data = verifier->make_data(p, spec, nullptr);
    ASSERT_TRUE(ok(data));
    ASSERT_TRUE(ok(gemm::run(device(), p, data->args(), nullptr)));
    const auto found = verifier->check(*data, {.judge = Judge::unwritten}, nullptr);
    ASSERT_TRUE(ok(found));
    EXPECT_TRUE(is_right(*found)) << describe(*found);
  }
}

TEST_F(added, real_data_stay_within_the_bound_and_are_the_same_bits_in_order) {
  const auto verifier = Verifier::create(device());
  ASSERT_TRUE(ok(verifier));
  const Workspace workspace = make_workspace();
  int differing = 0;
  for (const bool deterministic : {true, false})
    for (const i64 n : {384, 383})
      for (const int splits : {1, 8}) {
        const Problem p = gradient({256, n, 32768}, DType::bf16, deterministic);
        PlanOverrides o{.schedule = Schedule::cooperative, .tile_m = 128, .tile_n = 128};
        o.cluster = ClusterShape{1, 1};
        o.splits = splits;
        const gemm::Kernel kernel = kernel_of(p, o);
        auto memory = DeviceBuffer::allocate(device(), data_bytes(p, {}));
        ASSERT_TRUE(ok(memory));
        const auto arena = std::make_shared<const DeviceBuffer>(std::move(*memory));
        auto data = verifier->make_data(p, real_data(p, 9), arena, nullptr);
        ASSERT_TRUE(ok(data));
        gemm::Args args = data->args();
        args.workspace = workspace.view();
        const i64 bytes = arena->bytes();
        std::vector<char> first(static_cast<size_t>(bytes)), now(static_cast<size_t>(bytes));
        for (int run = 0; run < 40; ++run) {
          ASSERT_TRUE(ok(verifier->refill(*data, 9, nullptr)));
          ASSERT_TRUE(ok(gemm::launch(kernel, args, nullptr)));
          const auto found = verifier->check(*data, {.judge = Judge::bounded}, nullptr);
          ASSERT_TRUE(ok(found));
          ASSERT_TRUE(is_right(*found)) << short_name(kernel.plan().config) << describe(*found);
          ASSERT_TRUE(ok(arena->download(run == 0 ? first.data() : now.data(), bytes)));
          if (run == 0) continue;
          const bool same = std::memcmp(first.data(), now.data(), first.size()) == 0;
          if (kernel.plan().config.combine == Combine::add)
            differing += same ? 0 : 1;
          else
            ASSERT_TRUE(same) << "run " << run << " differs: " << short_name(kernel.plan().config);
        }
      }
  std::printf("%d of 78 runs in any order had other bits than the first\n", differing);
}

}  // namespace
}  // namespace sluice::testing
