// SPDX-License-Identifier: Apache-2.0
// Every registered configuration in the twin: a small problem with real numbers, and random interleavings. A
// row of the registry with a wrong protocol or layout fails here before any GPU sees it.

#include <algorithm>
#include <cmath>

#include <sluice/twin/explore.h>

#include "conv_scenarios.h"
#include "tests/registered_configs.h"

namespace sluice::twin {
namespace {

constexpr ConfigList kConfigs = registered_configs();

/// Columns of a problem with more than one cluster tile. A block of scales belongs to one half of a gate.
i64 columns_for(const KernelConfig& c) {
  const i64 tiles = c.tile.n * c.cluster.n;
  if (!c.epilogue.gated) return tiles + 3;
  return is_block_scaled(c.epilogue) ? round_up(tiles + 1, i64{2 * kScaleBlock}) : tiles + kGatedGroup;
}

/// A problem of two cluster tiles and a fraction along m and n, and of two and a half k-tiles.
Problem problem_for(const KernelConfig& c) {
  Problem product{.m = c.tile.m * c.cluster.m + 5,
                  .n = columns_for(c),
                  .k = 2 * c.tile.k + c.tile.k / 2,
                  .a = {.type = c.a, .major = c.a_major},
                  .b = {.type = c.b, .major = c.b_major},
                  .d = {.type = c.d, .major = c.d_major},
                  .epilogue = c.epilogue,
                  .deterministic = c.combine != Combine::add};
  if (c.scale_a_columns) product.scale_a_ld = product.m + 3;
  if (reads_table(c)) {
    product.batch = 3;
    product.groups = {c.groups.kind,
                      c.groups.kind == GroupKind::counts ? static_cast<int>(product.m / 3 + 1) : 1};
  }
  return is_swapped(c) ? transposed(product) : product;
}

/// Operands; rows of groups are divided among all of them, so that every row of D is written.
Operands operands_for(const KernelConfig& c) {
  Operands o = make_operands(problem_for(c));
  const int m = static_cast<int>(o.problem.m), pitch = o.problem.groups.pitch;
  if (c.groups.kind == GroupKind::ends) o.groups = {m / 3, m / 2, m};
  if (c.groups.kind == GroupKind::counts) o.groups = {pitch, pitch, pitch};
  return o;
}

/// Two clusters, or two slices per tile if the config adds up slices.
Plan plan_for(const Problem& problem, const KernelConfig& config) {
  return sliced(plan_of(problem, config, 2), config.combine != Combine::none ? 2 : 1);
}

bool is_conv(const KernelConfig& c) {
  return c.conv.op != ConvOp::none;
}
/// A small convolution for a config that gathers; in slices if the config adds them up.
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
  c.slices = std::min(2, scenario_of(c).grid().k_tiles);
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
    Operands o = operands_for(config);
    const Plan plan = plan_for(o.problem, config);
    const HostBuffers buffers = o.buffers(o.d);
    const auto report = run_on_host(plan, buffers, 0.5f, 2.0f, 1);
    ASSERT_TRUE(report.ok()) << report.error().message;
    steps += report->steps;
    // An element's scale depends on its neighbours, and its matrix of B on its group: all of D is compared.
    if (writes_scales(config.epilogue) || reads_table(config)) {
      reference_gemm(o.problem, o.buffers(o.expected), 0.5f, 2.0f);
      ASSERT_TRUE(o.as_expected());
      continue;
    }
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
    Scenario scenario{.config = config,
                      .m = static_cast<int>(p.m) * 2,
                      .n = static_cast<int>(p.n),
                      .k = (config.stages + 2) * config.tile.k,
                      .split = plan_for(problem, config).split};
    if (reads_table(config)) {  // two groups of all rows
      const int half = scenario.m / 2;
      const bool counts = config.groups.kind == GroupKind::counts;
      scenario.batch = 2;
      const std::vector<int> numbers{half, counts ? half : scenario.m};
      scenario.groups = read_groups(config, {config.groups.kind, counts ? half : 1}, scenario.m, numbers);
    }
    if (scenario.split.slices > 1)
      scenario.split.clusters = cluster_tiles(scenario.grid()) * scenario.split.slices;
    const Exploration found = explore_random(record_gemm(scenario), {.seed = 1, .schedules = 20});
    ASSERT_FALSE(found.failure) << describe(*found.failure);
    schedules += found.schedules;
  }
  std::printf("             %lld interleavings\n", schedules);
}

}  // namespace
}  // namespace sluice::twin
