// SPDX-License-Identifier: Apache-2.0
// Packed products on the GPU: random formats, sizes, tiles and epilogues, exact on whole numbers, between
// guards and with poison in the padding. Also repeatable bits, graphs and misuse. SLUICE_PACKED_CASES: number
// of random problems (at least 10,000 for a release). SLUICE_PACKED_SEED: the first. SLUICE_PACKED_KERNELS: a
// sum of 1 (narrow), 2 (wide), 4 (strip, e4m3 tokens), 8 (strip, 16-bit tokens); default 15, all.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <sluice/plan/dense/cluster_grid.h>
#include <sluice/run/driver/events.h>

#include "packed_pool.h"
#include "tests/packed_problems.h"

namespace sluice::testing {
namespace {

class packed_products : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped()) {
      ASSERT_TRUE(ok(pool_of(device())));
    }
  }
  const PackedPool& pool() { return *pool_of(device()); }

  Result<DeviceData> made(const PackedProblem& problem, DataKind kind, u64 seed, int shift = 0) {
    Result<packed::HostData> host = packed::random_data(problem, kind, seed);
    if (!host) return host.error();
    return DeviceData::create(device(), *std::move(host), 1, shift);
  }
  /// Checks the kernel that gemm::run chooses, with real-valued data.
  void expect_planned_right(const PackedProblem& problem) {
    const auto data = made(problem, DataKind::real, 3);
    ASSERT_TRUE(ok(data));
    ASSERT_TRUE(ok(gemm::run(device(), problem, data->args(), nullptr)));
    const auto found = data->check();
    ASSERT_TRUE(ok(found));
    EXPECT_TRUE(is_right(*found)) << to_string(problem) << ": " << describe(*found);
  }
  void expect_right(const PackedCase& c, u64 seed) {
    SCOPED_TRACE(to_string(c.config) + "\n" + to_string(c.problem));
    const auto data = made(c.problem, c.kind, seed, c.shift);
    ASSERT_TRUE(ok(data));
    const auto kernel = gemm::prepare(device(), Plan{.problem = c.problem, .config = config_of(c.config)});
    ASSERT_TRUE(ok(kernel));
    ASSERT_TRUE(ok(gemm::launch(*kernel, data->args(), nullptr)));
    const auto found = data->check(0, packed::rounding_of(config_of(c.config)));
    ASSERT_TRUE(ok(found));
    EXPECT_TRUE(is_right(*found)) << describe(*found);
    const auto first = data->read_d();
    ASSERT_TRUE(ok(data->poison(nullptr)));
    ASSERT_TRUE(ok(gemm::launch(*kernel, data->args(), nullptr)));
    const auto second = data->read_d();
    ASSERT_TRUE(ok(first) && ok(second));
    EXPECT_TRUE(*first == *second) << "other bits in the second run";
  }
};

TEST_F(packed_products, of_random_problems_are_right_to_the_bit) {
  const i64 cases = setting("SLUICE_PACKED_CASES", 600), begin = setting("SLUICE_PACKED_SEED", 1);
  i64 done = 0;
  for (; done < cases && !HasFailure(); ++done) {
    const auto seed = static_cast<u64>(begin + done);
    SCOPED_TRACE("SLUICE_PACKED_CASES=1 SLUICE_PACKED_SEED=" + std::to_string(seed));
    expect_right(random_case(pool().configs, seed), seed);
  }
  record("cases", done);
  record("kernels", static_cast<i64>(pool().configs.size()));
  record("seed", begin);
  std::printf("packed products: %lld of %lld random cases from seed %lld, of %zu kernels\n", done, cases,
              begin, pool().configs.size());
}

// With positive data, losses of accuracy add up and show: a group of e4m3 tokens that is never promoted, or
// truncated weights. tests/unit/packed_judge_test.cc plants both bugs.
TEST_F(packed_products, of_positive_data_have_no_bias) {
  record("cases", static_cast<i64>(pool().configs.size()));
  for (const PackedConfig& c : pool().configs) {
    const PackedExtents e = extents_of(c);
    expect_right({problem_of(c, e.tokens + 1, 384, 2048), c, DataKind::positive, 0}, 7);
    if (HasFailure()) return;
  }
}

TEST_F(packed_products, of_every_kernel_at_the_edges) {
  record("cases", 6 * static_cast<i64>(pool().configs.size()));
  record("kernels", static_cast<i64>(pool().configs.size()));
  for (const PackedConfig& c : pool().configs) {
    const PackedExtents e = extents_of(c);
    for (const auto& [m, n, k] : {std::array<i64, 3>{1, 1, 1},
                                  {e.tokens + 1, 65, 129},
                                  {e.tokens - 1, 96, 200},
                                  {e.tokens + 1, 128, 640},
                                  {7, 128, 1024},
                                  {2 * e.tokens, 384, 640}})
      expect_right(
          {problem_of(c, m, std::max<i64>(n, e.least_n), std::max<i64>(k, e.least_k)), c, DataKind::exact, 0},
          5);
    if (HasFailure()) return;
  }
}

/// Expects equal bits of D from all these kernels, whose configs differ only in their tiles. Compiles them in
/// parallel.
void expect_same_bits(const Device& device, const PackedProblem& problem,
                      const std::vector<PackedConfig>& configs) {
  Result<packed::HostData> host = packed::random_data(problem, DataKind::real, 8);
  ASSERT_TRUE(ok(host));
  const auto data = DeviceData::create(device, *std::move(host), 1, 0);
  ASSERT_TRUE(ok(data));
  std::vector<Plan> plans;
  for (const PackedConfig& config : configs)
    plans.push_back({.problem = problem, .config = config_of(config)});
  std::vector<u8> first;
  for (const Result<gemm::Kernel>& kernel : gemm::prepare(device, plans)) {
    ASSERT_TRUE(ok(kernel));
    ASSERT_TRUE(ok(data->poison(nullptr)));
    ASSERT_TRUE(ok(gemm::launch(*kernel, data->args(), nullptr)));
    const auto d = data->read_d();
    ASSERT_TRUE(ok(d));
    if (first.empty()) first = *d;
    EXPECT_TRUE(*d == first) << to_string(kernel->plan().config);
  }
}

// Each element is the same sum in the same order, whatever the width of the tile.
TEST_F(packed_products, have_the_same_bits_in_tiles_of_any_width) {
  std::vector<PackedConfig> wide;
  for (int tokens = 32; tokens <= kWideMostTokens; tokens += 8)
    wide.push_back(WideConfig{.weights = {.group = 64}, .tokens = tokens, .x_stages = 4, .w_stages = 2});
  expect_same_bits(device(), problem_of(wide.front(), 203, 200, 2000), wide);
  for (const DType x : {DType::fp16, DType::e4m3})
    for (const int parts : {1, 2}) {
      StripConfig c{
          .weights = {.group = 64, .order = is_16bit(x) ? FragmentOrder::half : FragmentOrder::byte},
          .x = x,
          .parts = parts,
          .stages = 2};
      std::vector<PackedConfig> configs;
      for (c.strips = 1; c.strips <= 4; ++c.strips)
        for (c.tokens = 8 * c.strips; c.tokens <= most_strip_tokens(x, c.strips); c.tokens += 16)
          if (validate(c) == nullptr) configs.push_back(c);
      expect_same_bits(device(), problem_of(c, 203, 200, 2000), configs);
    }
}

// Some clusters take one tile more than others; the last tiles of both sides have few tokens and few outputs.
TEST_F(packed_products, of_several_waves_of_wide_tiles_are_right) {
  for (const int tokens : {64, 96, 128, 224, 256})
    for (const int cluster_n : {1, 2}) {
      const WideConfig c{.weights = {.group = 64},
                         .bias = Bias::column,
                         .tokens = tokens,
                         .cluster_n = cluster_n,
                         .x_stages = 4,
                         .w_stages = 2};
      const int row_tiles = clusters_at_once(cluster_n, device().info()) * 5 / 8;
      const i64 n = i64{row_tiles} * cluster_n * kWideRows;
      for (const i64 m : {tokens + 1, tokens + tokens / 2 + 9, 2 * tokens})
        expect_right({problem_of(c, m, n - 37, 300), c, DataKind::exact, 0}, 9);
      expect_right({problem_of(c, 2 * tokens, n, 4096), c, DataKind::real, 0}, 9);
      if (HasFailure()) return;
    }
}

TEST_F(packed_products, of_the_planners_choice_are_right) {
  for (const auto& [m, n, k] : {std::array<i64, 3>{16, 3584, 8192},
                                {1, 4096, 4096},
                                {32, 1280, 8192},
                                {5, 8192, 1024},
                                {100, 320, 1000},
                                {64, 8192, 1024},
                                {300, 4096, 2048}})
    for (const WeightFormat& format :
         {WeightFormat{.group = 64},
          WeightFormat{.group = 128, .scale = DType::bf16, .zero = ScaleZero::per_group},
          WeightFormat{.type = WeightType::int8, .group = 0},
          WeightFormat{.type = WeightType::e4m3, .group = 32}}) {
      const PackedProblem problem{.m = m, .n = n, .k = k, .weights = format};
      const auto plan = gemm::plan(problem, device().info());
      ASSERT_TRUE(ok(plan));
      const auto data = made(problem, DataKind::real, 3);
      ASSERT_TRUE(ok(data));
      ASSERT_TRUE(ok(gemm::run(device(), problem, data->args(), nullptr)));
      const auto found = data->check(0, packed::rounding_of(plan->config));
      ASSERT_TRUE(ok(found));
      EXPECT_TRUE(is_right(*found)) << to_string(problem) << ": " << describe(*found);
    }
}

TEST_F(packed_products, that_are_gated_as_planned_are_right) {
  for (const auto& [m, n, k] : {std::array<i64, 3>{1, 28672, 4096},
                                {16, 7168, 8192},
                                {4, 256, 136},
                                {33, 7168, 1024},
                                {64, 24576, 1024},
                                {1, 14784, 2048},
                                {16, 14784, 1024},
                                {40, 14800, 1024}})
    for (const DType x : {DType::bf16, DType::fp16}) {
      const PackedProblem problem{.m = m,
                                  .n = n,
                                  .k = k,
                                  .x = x,
                                  .d = x,
                                  .weights = {.group = 128, .scale = x},
                                  .activation = Activation::silu,
                                  .gated = true};
      const auto plan = gemm::plan(problem, device().info());
      ASSERT_TRUE(ok(plan));
      const auto data = made(problem, DataKind::real, 3);
      ASSERT_TRUE(ok(data));
      ASSERT_TRUE(ok(gemm::run(device(), problem, data->args(), nullptr)));
      const auto found = data->check(0, packed::rounding_of(plan->config));
      ASSERT_TRUE(ok(found));
      EXPECT_TRUE(is_right(*found)) << to_string(problem) << ": " << describe(*found);
    }
}

TEST_F(packed_products, that_norm_what_they_read_and_add_a_residual_as_planned_are_right) {
  for (const i64 m : {1, 3, 8})
    for (const auto& [n, k] : {std::array<i64, 2>{6144, 4096}, {1280, 8192}, {200, 328}})
      for (const bool residual : {false, true}) {
        expect_planned_right({.m = m,
                              .n = n,
                              .k = k,
                              .x = DType::bf16,
                              .d = DType::bf16,
                              .weights = {.scale = DType::bf16},
                              .norm_a = true,
                              .residual = residual});
      }
  expect_planned_right({.m = 2,
                        .n = 28672,
                        .k = 4096,
                        .x = DType::bf16,
                        .d = DType::bf16,
                        .weights = {.scale = DType::bf16},
                        .activation = Activation::silu,
                        .gated = true,
                        .norm_a = true});
  for (const i64 m : {16, 33})
    expect_planned_right({.m = m, .n = 4096, .k = 1024, .weights = {.group = 64}, .residual = true});
}

// C may be D itself, because the same thread reads and writes each element, four at a time or singly.
TEST_F(packed_products, add_to_d_where_it_lies) {
  for (const int parts : {1, 4})
    for (const i64 n : {320, 321})
      for (const DType d : {DType::bf16, DType::fp32})
        for (const i64 m : {1, 5, 16}) {
          const PackedProblem problem{
              .m = m, .n = n, .k = 1024, .x = DType::bf16, .d = d, .residual = true, .ld_d = n, .ld_c = n};
          const auto plan = gemm::plan(problem, device().info(), PackedOverrides{.parts = parts});
          const auto data = made(problem, DataKind::real, 4);
          ASSERT_TRUE(ok(plan) && ok(data));
          const auto kernel = gemm::prepare(device(), *plan);
          ASSERT_TRUE(ok(kernel));
          ASSERT_TRUE(ok(gemm::launch(*kernel, data->args(), nullptr)));
          const auto found = data->check();
          const auto apart = data->read_d();
          ASSERT_TRUE(ok(found) && ok(apart));
          EXPECT_TRUE(is_right(*found)) << describe(*found);
          const i64 bytes = m * n * bytes_of(d);
          const auto c = DeviceBuffer::allocate(device(), bytes);
          ASSERT_TRUE(ok(c) && ok(c->upload(data->host().c.data(), bytes)));
          gemm::Args args = data->args();
          args.c = args.d = c->data();
          ASSERT_TRUE(ok(gemm::launch(*kernel, args, nullptr)));
          std::vector<u8> in_place(static_cast<size_t>(bytes));
          ASSERT_TRUE(ok(synchronize(device())));
          ASSERT_TRUE(ok(c->download(in_place.data(), bytes)));
          EXPECT_TRUE(
              std::equal(in_place.begin(), in_place.end(), apart->begin() + packed::d_begin(problem, 0)));
        }
}

TEST_F(packed_products, of_e4m3_tokens_with_fewer_k_tiles_than_stages_are_right) {
  const WeightFormat format{.scale = DType::bf16, .order = FragmentOrder::byte};
  for (const int parts : {1, 2})
    for (const i64 k : {128, 256, 384, 1920}) {
      const StripConfig config{.weights = format, .d = DType::fp32, .strips = 4, .parts = parts, .stages = 8};
      expect_right({problem_of(config, 16, 256, k), config, DataKind::exact, 0}, 6);
    }
}

TEST_F(packed_products, of_e4m3_tokens_as_planned_are_right) {
  for (const auto& [m, n, k] : {std::array<i64, 3>{1, 4096, 4096},
                                {16, 8192, 1024},
                                {33, 1280, 8192},
                                {64, 8192, 1024},
                                {100, 320, 1000},
                                {300, 4096, 2048}})
    for (const WeightFormat& format :
         {WeightFormat{.group = 64, .order = FragmentOrder::byte},
          WeightFormat{
              .group = 32, .scale = DType::fp32, .zero = ScaleZero::per_group, .order = FragmentOrder::byte},
          WeightFormat{.group = 0, .scale = DType::bf16, .order = FragmentOrder::byte}}) {
      const PackedProblem problem{.m = m,
                                  .n = n,
                                  .k = k,
                                  .x = DType::e4m3,
                                  .scale_x = ScaleMode::vector,
                                  .d = DType::bf16,
                                  .weights = format,
                                  .ld_x = ceil_div(k, i64{16}) * 16};
      expect_planned_right(problem);
    }
}

TEST_F(packed_products, of_e4m3_tokens_that_are_gated_and_quantised_as_planned_are_right) {
  for (const auto& [m, n, k] : {std::array<i64, 3>{1, 28672, 4096},
                                {16, 7168, 8192},
                                {4, 256, 144},
                                {33, 7168, 1024},
                                {16, 14784, 1024},
                                {100, 400, 2048}}) {
    const PackedProblem problem{.m = m,
                                .n = n,
                                .k = k,
                                .x = DType::e4m3,
                                .scale_x = ScaleMode::tensor,
                                .d = DType::e4m3,
                                .weights = {.scale = DType::bf16, .order = FragmentOrder::byte},
                                .activation = Activation::silu,
                                .gated = true,
                                .scale_d = ScaleMode::tensor};
    expect_planned_right(problem);
  }
}

// Tile rows beyond the last token contain what the ring held before. If that is NaN, it must not reach D.
TEST_F(packed_products, of_e4m3_tokens_do_not_see_what_tiles_had_before) {
  const WeightFormat format{.group = 64, .zero = ScaleZero::per_group, .order = FragmentOrder::byte};
  const StripConfig config{
      .weights = format, .d = DType::fp32, .tokens = 32, .strips = 1, .k_groups = 2, .stages = 4};
  PackedCase full{
      .problem = problem_of(config, 32, 64, 2048), .config = config, .kind = DataKind::exact, .shift = 0};
  const auto kernel = gemm::prepare(device(), Plan{.problem = full.problem, .config = config_of(config)});
  const auto data = made(full.problem, DataKind::exact, 9);
  ASSERT_TRUE(ok(kernel) && ok(data));
  const auto nans = DeviceBuffer::allocate(device(), 32 * 2048);
  ASSERT_TRUE(ok(nans));
  ASSERT_TRUE(ok(nans->fill(0x7F, nullptr)));
  gemm::Args poisoned = data->args();
  poisoned.a = nans->data();
  for (const i64 m : {1, 7, 9, 31}) {
    for (int i = 0; i < 200; ++i) {  // often enough to use every SM's shared memory
      ASSERT_TRUE(ok(gemm::launch(*kernel, poisoned, nullptr)));
    }
    PackedCase few = full;
    few.problem.m = m;
    expect_right(few, static_cast<u64>(m));
  }
}

TEST_F(packed_products, without_k_are_the_bias) {
  for (const int group : {0, 64}) {
    for (const DType x : {DType::fp16, DType::e4m3}) {
      PackedProblem problem{
          .m = 9, .n = 200, .k = 0, .x = x, .weights = {.group = group, .zero = ScaleZero::per_group}};
      if (x == DType::e4m3) problem.weights.order = FragmentOrder::byte;
      problem.bias = Bias::column;
      problem.activation = Activation::relu;
      if (x == DType::e4m3) problem.scale_x = ScaleMode::vector;
      const auto data = made(problem, DataKind::exact, 4);
      ASSERT_TRUE(ok(data));
      gemm::Args args = data->args();
      args.a = args.b = nullptr;
      args.scale_a = nullptr;
      ASSERT_TRUE(ok(gemm::run(device(), problem, args, nullptr)));
      const auto found = data->check();
      ASSERT_TRUE(ok(found));
      EXPECT_TRUE(is_right(*found)) << describe(*found);
    }
  }
}

TEST_F(packed_products, go_into_graphs) {
  const PackedProblem problem{.m = 16, .n = 1024, .k = 2048, .weights = {.group = 64}};
  const auto stream = StreamHandle::create(device());
  const auto data = made(problem, DataKind::exact, 6);
  ASSERT_TRUE(ok(stream) && ok(data));
  const auto cold = Graph::capture(device(), stream->get(), [&] {
    return gemm::run(device(), PackedProblem{.m = 16, .n = 1088, .k = 2048}, data->args(), stream->get());
  });
  ASSERT_FALSE(cold.ok());
  EXPECT_EQ(cold.error().code, ErrorCode::not_prepared);
  ASSERT_TRUE(ok(gemm::run(device(), problem, data->args(), stream->get())));
  const auto graph = Graph::capture(
      device(), stream->get(), [&] { return gemm::run(device(), problem, data->args(), stream->get()); });
  ASSERT_TRUE(ok(graph));
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(ok(data->poison(stream->get())));
    ASSERT_TRUE(ok(graph->launch(stream->get())));
    const auto found = data->check();
    ASSERT_TRUE(ok(found));
    ASSERT_TRUE(is_right(*found)) << "replay " << i << ": " << describe(*found);
  }
}

TEST_F(packed_products, misuse_launches_nothing) {
  PackedProblem problem{.m = 4, .n = 128, .k = 256, .weights = {.group = 64}};
  problem.bias = Bias::column;
  const auto data = made(problem, DataKind::exact, 8);
  ASSERT_TRUE(ok(data));
  const gemm::Args good = data->args();
  const auto moved = [](const void* pointer, i64 bytes) { return static_cast<const u8*>(pointer) + bytes; };
  const auto refused = [&](ErrorCode code, auto&& spoil) {
    gemm::Args bad = good;
    spoil(bad);
    const Result<void> result = gemm::run(device(), problem, bad, nullptr);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, code) << result.error().message;
  };
  std::vector<u8> host(4096);
  refused(ErrorCode::invalid_pointer, [](gemm::Args& a) { a.a = nullptr; });
  refused(ErrorCode::invalid_pointer, [](gemm::Args& a) { a.b = nullptr; });
  refused(ErrorCode::invalid_pointer, [](gemm::Args& a) { a.bias = nullptr; });
  refused(ErrorCode::invalid_pointer, [&](gemm::Args& a) {
    a.a = reinterpret_cast<const void*>((reinterpret_cast<u64>(host.data()) + 127) / 128 * 128);
  });
  refused(ErrorCode::misaligned, [&](gemm::Args& a) { a.a = moved(a.a, 2); });
  refused(ErrorCode::misaligned, [&](gemm::Args& a) { a.b = moved(a.b, 16); });
  refused(ErrorCode::misaligned, [&](gemm::Args& a) { a.d = static_cast<u8*>(a.d) + 1; });
  refused(ErrorCode::aliasing, [](gemm::Args& a) { a.d = const_cast<void*>(a.a); });
  refused(ErrorCode::aliasing, [](gemm::Args& a) { a.d = const_cast<void*>(a.b); });
  const auto d = data->read_d();
  ASSERT_TRUE(ok(d));
  EXPECT_TRUE(std::all_of(d->begin(), d->end(), [](u8 byte) { return byte == 0xFF; }));
}

}  // namespace
}  // namespace sluice::testing
