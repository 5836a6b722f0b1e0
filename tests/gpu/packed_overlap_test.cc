// SPDX-License-Identifier: Apache-2.0
// Packed products in chains of dependent launches. A long product writes their tokens over NaN and triggers
// them at once. They, and another product after them, must have the bits of separate launches. To see it
// fail: remove the wait from kernels/narrow.cuh, strip.cuh or wide.cuh (and Module::check_waits).
#include <functional>
#include <span>

#include <sluice/check/packed_check.h>
#include <sluice/run/driver/events.h>

#include "contract_pool.h"
#include "gpu.h"
#include "overlap_contract.h"
#include "tests/packed_problems.h"

namespace sluice::testing {
namespace {

constexpr i64 kOutputs = 1280, kDepth = 4096, kLongDepth = 65536;
constexpr int kRuns = 25;

PackedProblem problem_of(DType x, i64 m) {
  PackedProblem problem{.m = m, .n = kOutputs, .k = kDepth, .x = x, .weights = {.group = 64}};
  if (x == DType::e4m3) problem.weights.order = FragmentOrder::byte;
  return problem;
}

class packed_overlap : public GpuTest {
 protected:
  /// The product that writes the tokens. Each token is 1, computed by a long sum, so that it is written late.
  struct Producer {
    gemm::Kernel kernel;
    DeviceBuffer a, b;
    std::optional<Workspace> workspace;
    gemm::Args args(void* d) const {
      gemm::Args args{.a = a.data(), .b = b.data(), .d = d, .alpha = 1.0f / kLongDepth};
      if (workspace) args.workspace = workspace->view();
      return args;
    }
  };

  Result<Producer> producer(const PackedProblem& consumer) {
    Problem problem{.m = consumer.m, .n = kDepth, .k = kLongDepth};
    problem.a.type = problem.b.type = DType::e4m3;
    problem.d.type = consumer.x;
    const Result<Plan> plan =
        gemm::plan(problem, device().info(), {.overlap = {.trigger = Trigger::at_start}});
    if (!plan) return plan.error();
    const Result<gemm::Kernel> kernel = gemm::prepare(device(), *plan);
    if (!kernel) return kernel.error();
    Producer made{.kernel = *kernel, .a = {}, .b = {}, .workspace = {}};
    constexpr u8 kOne = 0x38;
    for (auto [buffer, bytes] :
         {std::pair(&made.a, problem.m * problem.k), {&made.b, problem.n * problem.k}}) {
      Result<DeviceBuffer> memory = DeviceBuffer::allocate(device(), bytes);
      if (!memory) return memory.error();
      if (Result<void> filled = memory->fill(kOne, nullptr); !filled) return filled.error();
      *buffer = *std::move(memory);
    }
    if (plan->workspace_bytes > 0) {
      Result<Workspace> workspace = Workspace::create(device(), plan->workspace_bytes);
      if (!workspace) return workspace.error();
      made.workspace = *std::move(workspace);
    }
    return made;
  }

  gemm::Kernel prepared(const PackedProblem& problem, PlanOverrides choices, const Overlap& overlap) {
    choices.overlap = overlap;
    const Result<Plan> plan = gemm::plan(problem, device().info(), choices);
    EXPECT_TRUE(ok(plan));
    const Result<gemm::Kernel> kernel = gemm::prepare(device(), *plan);
    EXPECT_TRUE(ok(kernel));
    return *kernel;
  }

  void expect_same_bits(const PackedProblem& problem, const PackedOverrides& choices) {
    Result<packed::HostData> host = packed::random_data(problem, packed::DataKind::real, 7);
    ASSERT_TRUE(ok(host));
    const auto data = packed::DeviceData::create(device(), *std::move(host), 2);
    const auto from = producer(problem);
    const auto x = DeviceBuffer::allocate(device(), problem.m * problem.k * bytes_of(problem.x));
    const auto stream = StreamHandle::create(device());
    ASSERT_TRUE(ok(data) && ok(from) && ok(x) && ok(stream));
    const auto run = [&](const Overlap& overlap) {
      const gemm::Kernel kernel = prepared(problem, choices, overlap);
      std::array<std::vector<u8>, 2> d;
      for (const int copy : {0, 1}) EXPECT_TRUE(ok(data->poison(stream->get(), copy)));
      EXPECT_TRUE(ok(x->fill(0xFF, stream->get())));
      EXPECT_TRUE(ok(gemm::launch(from->kernel, from->args(x->data()), stream->get())));
      for (const int copy : {0, 1}) {
        gemm::Args args = data->args(copy);
        args.a = x->data();
        if (problem.residual) args.c = x->data();  // the previous launch writes C too
        args.prefetch = args.hand_off = {args.b, blob_bytes(kernel.plan().problem)};
        EXPECT_TRUE(ok(gemm::launch(kernel, args, stream->get())));
      }
      for (const int copy : {0, 1}) {
        Result<std::vector<u8>> read = data->read_d(copy);
        EXPECT_TRUE(ok(read));
        if (read) d[static_cast<size_t>(copy)] = *std::move(read);
      }
      return d;
    };
    const auto in_turn = run({});
    EXPECT_EQ(in_turn[0], in_turn[1]);
    for (const Overlap overlap :
         {Overlap{Wait::first, Trigger::at_start}, Overlap{Wait::weights_first, Trigger::at_start},
          Overlap{Wait::weights_first, Trigger::after_loads, Spacing::registers}})
      for (int i = 0; i < kRuns && !HasFailure(); ++i) {
        const auto early = run(overlap);
        EXPECT_TRUE(early[0] == in_turn[0] && early[1] == in_turn[1])
            << name_of(overlap.wait) << " " << name_of(overlap.trigger) << ", run " << i;
      }
  }
};

/// Runs packed products through overlap_contract: with a late reader of D two launches before, and in a
/// graph.
class packed_contract : public packed_overlap {
 protected:
  using Prepare = std::function<gemm::Kernel(const Overlap&)>;

  /// `made` prepares the kernel with a given overlap, or without overlap.
  void expect_contract(const PackedProblem& problem, const Prepare& made, std::span<const Overlap> overlaps) {
    Result<packed::HostData> host = packed::random_data(problem, packed::DataKind::real, 7);
    ASSERT_TRUE(ok(host));
    const auto data = packed::DeviceData::create(device(), *std::move(host));
    const i64 x_bytes = problem.m * problem.k * bytes_of(problem.x),
              d_bytes = problem.m * d_columns(problem) * bytes_of(problem.d);
    const auto x = DeviceBuffer::allocate(device(), std::max(x_bytes, d_bytes));
    const auto d = DeviceBuffer::allocate(device(), d_bytes);
    ASSERT_TRUE(ok(data) && ok(x) && ok(d));
    constexpr u8 kSmall = 0x3c;  // as for dense products (gemm_overlap_test.cc)
    ASSERT_TRUE(ok(x->fill(kSmall, nullptr)));
    gemm::Args args = data->args();
    args.a = x->data();
    args.d = d->data();
    if (problem.residual) args.c = x->data();
    args.prefetch = args.hand_off = {args.b, blob_bytes(problem)};
    const auto launching = [&](const Overlap& overlap) {
      const gemm::Kernel kernel = made(overlap);
      return Chained{.launch = [args, kernel](Stream stream) { return gemm::launch(kernel, args, stream); },
                     .input = &*x,
                     .outputs = {&*d}};
    };
    const Chained alone = launching({});
    for (const Overlap& overlap : overlaps) {
      const Chained chained = launching(overlap);
      for (const bool in_graph : {false, true}) {
        const Result<i64> differing = bytes_that_differ(device(), alone, chained, in_graph);
        ASSERT_TRUE(ok(differing));
        EXPECT_EQ(*differing, 0) << name_of(overlap.wait) << (in_graph ? ", in a graph" : "");
      }
      const Result<i64> early = bytes_written_early(device(), chained);
      ASSERT_TRUE(ok(early));
      EXPECT_EQ(*early, 0) << name_of(overlap.wait);
    }
  }
  void expect_contract(const PackedProblem& problem, const PackedOverrides& choices) {
    const Overlap overlaps[] = {{Wait::first, Trigger::at_start},
                                {Wait::first, Trigger::after_loads},
                                {Wait::weights_first, Trigger::at_start},
                                {Wait::weights_first, Trigger::after_loads}};
    expect_contract(
        problem, [&](const Overlap& overlap) { return prepared(problem, choices, overlap); }, overlaps);
  }
  void expect_contract(const PackedProblem& problem, PackedConfig config) {
    const Overlap own = std::visit([](const auto& c) { return c.overlap; }, config);
    const auto made = [&](const Overlap& overlap) {
      std::visit([&](auto& c) { c.overlap = overlap; }, config);
      const Result<gemm::Kernel> kernel =
          gemm::prepare(device(), Plan{.problem = problem, .config = config_of(config)});
      EXPECT_TRUE(ok(kernel));
      return *kernel;
    };
    expect_contract(problem, made, std::span(&own, 1));
  }
};

TEST_F(packed_contract, is_kept_with_every_value_of_every_field) {
  const std::vector<PackedConfig> pool = contract_packed_pool();
  record("cases", static_cast<i64>(pool.size()));
  for (const PackedConfig& config : pool) {
    SCOPED_TRACE(to_string(config));
    expect_contract(contract_problem(config), config);
  }
}

TEST_F(packed_contract, is_kept_by_every_kernel) {
  expect_contract(problem_of(DType::fp16, 3), {.token_blocks = 1});
  expect_contract(problem_of(DType::fp16, 16), {.token_blocks = 2, .parts = 2});
  expect_contract(problem_of(DType::bf16, 64), {.parts = 2, .tokens = 64, .strips = 2, .k_groups = 2});
  expect_contract(problem_of(DType::e4m3, 64), {.parts = 1, .tokens = 64});
  expect_contract(problem_of(DType::bf16, 64), {.tokens = 64, .cluster_n = 1});
  expect_contract(problem_of(DType::bf16, 256), {.tokens = 64, .cluster_n = 2});
  PackedProblem normed = problem_of(DType::bf16, 5);
  normed.d = DType::bf16;
  normed.norm_a = normed.residual = true;
  normed.ld_c = normed.k;
  expect_contract(normed, {.token_blocks = 1, .parts = 2});
}

TEST_F(packed_overlap, of_the_narrow_kernel_gives_the_bits_of_launches_in_turn) {
  expect_same_bits(problem_of(DType::fp16, 3), {.token_blocks = 1});
  expect_same_bits(problem_of(DType::fp16, 16), {.token_blocks = 2, .parts = 2});
}

TEST_F(packed_overlap, of_gated_products_gives_the_bits_of_launches_in_turn) {
  for (const i64 m : {1, 16}) {
    PackedProblem problem = problem_of(DType::fp16, m);
    problem.activation = Activation::silu;
    problem.gated = true;
    expect_same_bits(problem, {.row_blocks = 4, .parts = 2});
    expect_same_bits(problem, {.row_blocks = 8});
  }
}

TEST_F(packed_overlap, of_products_that_norm_and_add_gives_the_bits_of_launches_in_turn) {
  for (const i64 m : {1, 5}) {
    PackedProblem problem = problem_of(DType::bf16, m);
    problem.d = DType::bf16;
    problem.residual = true;
    problem.ld_c = problem.k;
    ASSERT_LE(problem.n, problem.k);
    expect_same_bits(problem, {.token_blocks = 1});
    problem.norm_a = true;
    expect_same_bits(problem, {.token_blocks = 1, .parts = 2});
    problem.residual = false;
    problem.gated = true;
    expect_same_bits(problem, {.row_blocks = 8});
  }
}

TEST_F(packed_overlap, of_the_wide_kernel_gives_the_bits_of_launches_in_turn) {
  expect_same_bits(problem_of(DType::bf16, 64), {.tokens = 64, .cluster_n = 1});
  expect_same_bits(problem_of(DType::bf16, 64), {.tokens = 32, .cluster_n = 2});
}

TEST_F(packed_overlap, of_the_strip_kernel_gives_the_bits_of_launches_in_turn) {
  expect_same_bits(problem_of(DType::bf16, 64), {.parts = 2, .tokens = 64, .strips = 2, .k_groups = 2});
  expect_same_bits(problem_of(DType::fp16, 32), {.parts = 1, .tokens = 32, .strips = 4, .k_groups = 1});
  expect_same_bits(problem_of(DType::e4m3, 16), {.parts = 2});
  expect_same_bits(problem_of(DType::e4m3, 64), {.parts = 1, .tokens = 64});
  PackedProblem gated = problem_of(DType::e4m3, 16);
  gated.activation = Activation::silu;
  gated.gated = true;
  gated.d = DType::e4m3;
  gated.scale_d = ScaleMode::tensor;
  expect_same_bits(gated, {.parts = 2, .strips = 2, .k_groups = 2});
}

// Each warpgroup must have stages of its own. If two shared one, a warpgroup could wait for a stage whose
// last bytes the other had not seen. This product hung that way with 17 or 18 stages and 4 warpgroups; it has
// many CTAs in many waves.
TEST_F(packed_overlap, stages_of_warpgroups_are_their_own) {
  PackedProblem bytes{.m = 96,
                      .n = 10240,
                      .k = 8192,
                      .x = DType::e4m3,
                      .weights = {.group = 64, .order = FragmentOrder::byte}};
  PackedProblem halves = bytes;
  halves.x = DType::bf16;
  halves.weights.order = FragmentOrder::half;
  for (const auto& [problem, parts] : {std::pair{bytes, 1}, {bytes, 2}, {halves, 1}, {halves, 2}}) {
    const Result<Plan> plan = gemm::plan(
        problem, device().info(), PackedOverrides{.parts = parts, .tokens = 64, .strips = 1, .k_groups = 4});
    ASSERT_TRUE(ok(plan));
    Result<packed::HostData> host = packed::random_data(problem, packed::DataKind::real, 5);
    ASSERT_TRUE(ok(host));
    const auto data = packed::DeviceData::create(device(), *std::move(host), 4);
    const auto kernel = gemm::prepare(device(), *plan);
    ASSERT_TRUE(ok(data) && ok(kernel));
    ASSERT_TRUE(ok(gemm::launch(*kernel, data->args(0), nullptr)));
    const auto first = data->read_d(0);
    const i64 launches = setting("SLUICE_PACKED_STRESS", 4000);
    for (i64 i = 0; i < launches; ++i)
      ASSERT_TRUE(ok(gemm::launch(*kernel, data->args(static_cast<int>(i % 4)), nullptr)));
    for (int copy = 0; copy < 4; ++copy) {
      const auto last = data->read_d(copy);
      ASSERT_TRUE(ok(first) && ok(last));
      EXPECT_TRUE(*first == *last) << "copy " << copy << ", parts " << parts;
    }
  }
}

}  // namespace
}  // namespace sluice::testing
