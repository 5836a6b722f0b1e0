// SPDX-License-Identifier: Apache-2.0
// Every registered config in the twin: a small problem with real numbers, in random interleavings. A row of
// the registry with a wrong protocol or layout fails here before it runs on a GPU.
#include <sluice/kernels/registry.h>

#include <algorithm>
#include <cmath>

#include <sluice/twin/explore.h>

#include "conv_scenarios.h"

namespace sluice::twin {
namespace {

constexpr ConfigList kConfigs = registered_configs();

/// A problem of two cluster tiles and a fraction along m and n, and of two and a half k-tiles.
Problem problem_for(const KernelConfig& c) {
  const Problem product{.m = c.tile.m * c.cluster.m + 5,
                        .n = c.tile.n * c.cluster.n + (c.epilogue.gated ? kGatedGroup : 3),
                        .k = 2 * c.tile.k + c.tile.k / 2,
                        .a = {.type = c.a, .major = c.a_major},
                        .b = {.type = c.b, .major = c.b_major},
                        .d = {.type = c.d, .major = c.d_major},
                        .epilogue = c.epilogue,
                        .deterministic = c.combine != Combine::add};
  return is_swapped(c) ? transposed(product) : product;
}

/// A plan with two clusters. If the config can share tiles, it has three, which share all tiles but the last.
Plan plan_for(const Problem& problem, const KernelConfig& config) {
  const bool shares = config.combine != Combine::none;
  Plan plan = plan_of(problem, config, shares ? 3 : 2);
  const Problem p = product_of(problem, config);
  const int tiles = cluster_tiles(tile_grid(config, static_cast<int>(p.m), static_cast<int>(p.n),
                                            static_cast<int>(p.k), static_cast<int>(p.batch)));
  plan.split.streamed = shares ? tiles - 1 : 0;
  return plan;
}

bool is_conv(const KernelConfig& c) {
  return c.conv.op != ConvOp::none;
}
/// A small convolution for a config that gathers. If the config can share tiles, all but the last are shared.
ConvCase conv_for(const KernelConfig& config) {
  ConvCase c{.conv = odd_conv(config.conv.op, config.conv.spatial),
             .config = config,
             .inputs = config.a,
             .output = config.d,
             .epilogue = config.epilogue,
             .alpha = 0.5f,
             .beta = 2.0f};
  if (config.conv.op == ConvOp::dgrad) c.conv.stride = kOnes;
  if (config.conv.phased) c.conv.stride.w = 2;
  if (config.combine == Combine::none) return c;
  c.clusters = 3;
  c.streamed = std::max(1, cluster_tiles(scenario_of(c).grid()) - 1);
  return c;
}

/// Expects D to have the bits of the expected D, except where that is NaN. `buffers` hold the old D.
void expect_samples_match(const Operands& o, const std::vector<u8>& d, const HostBuffers& buffers) {
  const Problem& p = o.problem;
  constexpr i64 kSamples = 200;
  const i64 columns = d_columns(p), count = p.m * columns, step = count / kSamples | 1;
  for (i64 i = count - 1; i >= 0; i -= step) {
    const ElementIndex at{.row = i / columns, .column = i % columns};
    const u32 code = encode_code(p.d.type, reference_element(p, buffers, {.alpha = 0.5f, .beta = 2.0f}, at));
    ASSERT_EQ(load_element(p.d.type, d.data(), i), decode_code(p.d.type, code))
        << at.row << ", " << at.column;
  }
  for (i64 i = 0; i < count; ++i)
    ASSERT_FALSE(std::isnan(load_element(p.d.type, d.data(), i)))
        << i / columns << ", " << i % columns << " was not written";
}

TEST(registry, every_configuration_computes_a_small_problem) {
  i64 steps = 0;
  for (const KernelConfig& config : kConfigs) {
    SCOPED_TRACE(testing::Message() << name_of(config.schedule) << ' ' << config.tile.m << 'x'
                                    << config.tile.n << ' ' << name_of(config.a) << ' ' << name_of(config.d));
    if (is_conv(config)) {
      steps += expect_equals_reference(conv_for(config)).steps;
      continue;
    }
    Operands o = make_operands(problem_for(config));
    const Plan plan = plan_for(o.problem, config);
    const HostBuffers buffers = o.buffers(o.d);
    const auto report = run_on_host(plan, buffers, 0.5f, 2.0f, 1);
    ASSERT_TRUE(report.ok()) << report.error().message;
    steps += report->steps;
    expect_samples_match(o, o.d, o.buffers(o.expected));
    if (HasFatalFailure()) return;
  }
  std::printf("             %d configurations, %lld steps\n", kConfigs.size(), steps);
}

TEST(registry, every_configuration_in_random_interleavings) {
  i64 schedules = 0;
  for (const KernelConfig& config : kConfigs) {
    if (is_conv(config)) {
      const Exploration found =
          explore_random(record_gemm(scenario_of(conv_for(config))), {.seed = 1, .schedules = 20});
      ASSERT_FALSE(found.failure) << describe(*found.failure);
      schedules += found.schedules;
      continue;
    }
    const Problem problem = problem_for(config), p = product_of(problem, config);
    const Scenario scenario{.config = config,
                            .m = static_cast<int>(p.m) * 2,
                            .n = static_cast<int>(p.n),
                            .k = (config.stages + 2) * config.tile.k,
                            .split = plan_for(problem, config).split};
    const Exploration found = explore_random(record_gemm(scenario), {.seed = 1, .schedules = 20});
    ASSERT_FALSE(found.failure) << describe(*found.failure);
    schedules += found.schedules;
  }
  std::printf("             %lld interleavings\n", schedules);
}

}  // namespace
}  // namespace sluice::twin
