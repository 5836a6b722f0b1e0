// SPDX-License-Identifier: Apache-2.0
// The pools without a GPU: fills a cache directory that is carried to the GPU machine (tools/gpu_pool.sh),
// and checks the pools' coverage.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include <sluice/check/verify_units.h>
#include <sluice/host/jit/cache.h>
#include <sluice/host/jit/source.h>
#include <sluice/host/ops/gemm.h>
#include <sluice/host/planner/packed/packed_problem_checks.h>
#include <sluice/spec/validate.h>

#include "config_pool.h"
#include "sanitize_pool.h"

namespace sluice::testing {
namespace {

TEST(pool, covers_every_type_layout_schedule_cluster_and_store_path) {
  std::set<std::string> seen;
  for (const KernelConfig& c : exact_pool()) {
    ASSERT_EQ(validate(c), nullptr);
    seen.insert({std::string("a ") + name_of(c.a), std::string("b ") + name_of(c.b),
                 std::string("d ") + name_of(c.d), std::string("a major ") + name_of(c.a_major),
                 std::string("b major ") + name_of(c.b_major), std::string("d major ") + name_of(c.d_major),
                 std::string("schedule ") + name_of(c.schedule), std::string("store ") + name_of(c.store),
                 "cluster " + std::to_string(c.cluster.m) + "x" + std::to_string(c.cluster.n),
                 std::string("update ") + name_of(c.epilogue.update),
                 std::string("combine ") + name_of(c.combine), "promotes " + std::to_string(c.promotes),
                 "residual " + std::to_string(c.epilogue.residual),
                 std::string("scale_a ") + name_of(c.epilogue.scale_a),
                 std::string("scale_b ") + name_of(c.epilogue.scale_b)});
  }
  // 4 + 4 + 4 types, 2 + 2 + 2 layouts, 4 schedules, 2 stores, 8 clusters (m x n), 2 sums, 2 residual, 4 + 4
  // scales, 2 updates, 4 combines
  EXPECT_EQ(seen.size(), 50u);
  EXPECT_GE(exact_pool().size(), 200u);
  EXPECT_LE(exact_pool().size(), 1100u);
  EXPECT_EQ(class_pool().size(), 184u);
}

TEST(pool, covers_every_choice_of_packed_kernels_in_what_sanitizers_run) {
  const auto seen = [](const std::vector<PackedConfig>& pool) {
    std::set<std::string> all;
    for (const PackedConfig& config : pool)
      for (std::string& choice : choices_of(config)) all.insert(std::move(choice));
    return all;
  };
  // 2 x, 3 d, 5 weights and zeros, 3 scales, 4 groups; 2 each for bias, gated, norm_x, residual. 3 token
  // blocks, 3 held, 3 row blocks, 6 warps, 4 parts, 4 stages.
  EXPECT_EQ(seen(sanitize_narrow_pool()).size(), 2u + 3 + 5 + 3 + 4 + 8 + 3 + 3 + 3 + 6 + 4 + 4);
  // 3 x, 4 d, 5 weights and zeros, 3 scales, 4 groups; 2 each for bias and gated. 3 and 2 scales of x and d,
  // 24 tokens, 4 strips, 4 k_groups, 6 parts.
  EXPECT_EQ(seen(sanitize_strip_pool()).size(), 3u + 4 + 5 + 3 + 4 + 4 + 3 + 2 + 24 + 4 + 4 + 6);
  // 2 x, 3 d, 5 weights and zeros, 3 scales, 4 groups, 2 of bias, 32 tokens, 2 + 2 clusters, 6 + 4 stages, 2
  // tails
  EXPECT_EQ(seen(sanitize_wide_pool()).size(), 2u + 3 + 5 + 3 + 4 + 2 + 32 + 4 + 6 + 4 + 2);
}

TEST(pool, covers_with_problems_that_each_sanitized_kernel_takes) {
  for (const auto& pool : {sanitize_dense_pool(), sanitize_plain_pool()})
    for (const KernelConfig& config : pool)
      for (const Plan& plan : sanitize_plans(config, DeviceInfo{})) {
        const auto checked = gemm::sealed(plan, DeviceInfo{});
        EXPECT_TRUE(checked) << sluice::to_string(config) << checked.error().message;
      }
  for (const ConvVariant& variant : conv_variants())
    EXPECT_FALSE(sanitize_plans(variant, DeviceInfo{}).empty()) << variant.name;
  for (const auto& pool : {sanitize_narrow_pool(), sanitize_strip_pool(), sanitize_wide_pool()})
    for (const PackedConfig& config : pool) {
      const auto checked =
          packed::sealed({.problem = sanitize_problem(config), .config = config}, DeviceInfo{});
      EXPECT_TRUE(checked) << packed::short_name(config) << checked.error().message;
    }
}

TEST(pool, compiles_into_the_cache) {
  std::vector<std::string> units = {verify_unit_text(VerifyUnit::fill), verify_unit_text(VerifyUnit::check)};
  for (const auto& pool : {exact_pool(), real_pool(), class_pool()})
    for (const KernelConfig& config : pool)
      for (std::string& unit : unit_texts(config)) units.push_back(std::move(unit));
  const KernelCache cache(options_from_environment());
  const auto built = cache.get_all(units, 0, [](int done, int total) {
    if (done % 20 == 0 || done == total) std::printf("%d of %d\n", done, total);
  });
  int spilling = 0, worst = 0;  // not judged here: tests/compile requires zero for registered kernels
  for (size_t i = 0; i < built.size(); ++i) {
    ASSERT_TRUE(built[i].ok()) << units[i] << built[i].error().message;
    const int bytes = (*built[i])->report.spill_bytes;
    spilling += bytes > 0;
    if (bytes <= worst) continue;
    worst = bytes;
    std::printf("spills %d bytes: %s\n", bytes, units[i].c_str());
  }
  std::printf("%d of %zu units spill\n", spilling, units.size());
}

}  // namespace
}  // namespace sluice::testing
