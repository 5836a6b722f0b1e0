// SPDX-License-Identifier: Apache-2.0
// Tests of the pools that need no GPU. One fills a cache folder to be copied to the GPU machine
// (CONTRIBUTING.md); the others check that the pools cover all classes.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include <sluice/check/packed_data.h>
#include <sluice/check/verify_units.h>
#include <sluice/plan/packed/packed_problem_checks.h>
#include <sluice/plan/text/units.h>
#include <sluice/run/jit/cache.h>
#include <sluice/run/ops/gemm.h>
#include <sluice/spec/validate.h>

#include "class_kinds.h"
#include "config_pool.h"
#include "contract_pool.h"
#include "lab/random/dice.h"
#include "sanitize_pool.h"
#include "tests/packed_problems.h"

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
  // Number of values: 4 + 4 + 4 types, 2 + 2 + 2 layouts, 4 schedules, 2 store paths, 8 clusters (m x n).
  // Then 2 accumulation modes, 2 for the residual, 4 + 5 scale modes, 2 updates, 4 ways to combine.
  EXPECT_EQ(seen.size(), 51u);
  EXPECT_GE(exact_pool().size(), 200u);
  EXPECT_LE(exact_pool().size(), 1100u);
  EXPECT_EQ(class_pool().size(), 184u);
}

using Names = std::set<std::string>;

/// Returns the values of enumerations and switches that no config of these pools has.
template <class Config>
Names values_in_none(const std::vector<std::vector<Config>>& pools) {
  std::set<Choice> missing;
  for (const Choice& choice : all_choices<Config>())
    if (!choice.number) missing.insert(choice);
  for (const std::vector<Config>& pool : pools)
    for (const Config& config : pool)
      for (const Choice& choice : choices_of(config)) missing.erase(choice);
  Names names;
  for (const Choice& choice : missing) names.insert(choice.name);
  return names;
}

/// Starts at the pool's configs and changes up to four random fields at a time, as long as the config is
/// valid. Every value that occurs must also occur in the pool.
template <class Config>
void expect_nothing_is_missing(const ClassCover<Config>& classes, const std::vector<Config>& pool,
                               const std::string& name) {
  constexpr int kSteps = 40'000, kMostChanges = 4, kStray = 200;
  std::set<Choice> seen, wanted(classes.wanted().begin(), classes.wanted().end());
  std::vector<Config> bases;
  for (const Config& config : pool)
    if (classes.belongs(config)) bases.push_back(config);
  ASSERT_FALSE(bases.empty()) << name;
  for (const Config& config : bases)
    for (Choice& choice : choices_of(config)) seen.insert(std::move(choice));
  Dice dice(5);
  Config at = bases.front();
  for (int step = 0; step < kSteps; ++step) {
    if (step % kStray == 0) at = dice.any_of(bases);
    Config next = at;
    for (int change = dice.between(1, kMostChanges); change > 0; --change)
      next = changed(next, dice.any_of(classes.wanted()));
    if (!classes.belongs(next)) continue;
    at = next;
    for (Choice& choice : choices_of(at))
      if (wanted.contains(choice) && seen.insert(choice).second)
        ADD_FAILURE() << name << ": " << choice.name << " is in no class, and can be: " << to_string(at);
  }
}

std::vector<KernelConfig> gathering_pool() {
  std::vector<KernelConfig> pool = sanitize_conv_pool();
  for (const KernelConfig& config : sanitize_conv_field_pool()) pool.push_back(config);
  return pool;
}
const std::vector<std::vector<KernelConfig>>& sanitized_dense() {
  static const std::vector<std::vector<KernelConfig>> pools = {sanitize_dense_pool(), sanitize_strided_pool(),
                                                               sanitize_plain_pool(), gathering_pool()};
  return pools;
}
template <class Config>
std::vector<Config> only(const std::vector<PackedConfig>& pool) {
  std::vector<Config> all;
  for (const PackedConfig& config : pool) all.push_back(std::get<Config>(config));
  return all;
}

/// Values that no kernel can have. A new enumerator is in none of these lists. Then the test fails until the
/// enumerator is in a class, if validate() allows it, or in a list here, with a reason.
const Names kInNoDenseKernel = {"a fp32",
                                "b fp32",  // inputs are of 8 or 16 bits
                                "d e5m2",  // allowed for inputs only
                                "a e8m0",
                                "b e8m0",
                                "d e8m0",  // a type of packed scales only
                                "epilogue.bias_type e8m0",
                                "epilogue.c_type e8m0",
                                "epilogue.bias_type e4m3",
                                "epilogue.bias_type e5m2",  // vectors are not 8-bit
                                "epilogue.c_type e4m3",
                                "epilogue.c_type e5m2",     // and C is not either
                                "epilogue.scale_d vector",  // D has one scale, or computed ones
                                "epilogue.scale_d vector128",
                                "epilogue.scale_a vector128",  // B's
                                "schedule narrow",
                                "schedule wide",
                                "schedule strip",
                                "packed.type uint4",
                                "packed.type int8",
                                "packed.type e4m3",
                                "packed.type e2m1",
                                "packed.scale bf16",
                                "packed.scale fp32",
                                "packed.scale e4m3",
                                "packed.scale e5m2",
                                "packed.scale e8m0",
                                "packed.zero per_group",
                                "packed.order byte",
                                "norm_a true",
                                "epilogue.residual_last true"};  // these are for packed weights
const Names kInNoPackedKernel = {"activation clamped_swiglu",
                                 "bias row",
                                 "bias_type e4m3",
                                 "bias_type e5m2",
                                 "d e5m2",
                                 "bias_type e8m0",
                                 "d e8m0",
                                 "x e8m0",
                                 "weights.type none",  // these weights are not packed
                                 "weights.scale e4m3",
                                 "weights.scale e5m2",
                                 "x e5m2",
                                 "x fp32"};

Names with(Names names, const Names& more) {
  names.insert(more.begin(), more.end());
  return names;
}
const Names kNoSpacing = {"overlap.spacing registers", "overlap.spacing none", "overlap.spacing even"};
const Names kNoSmallTokens = {"d e4m3", "x e4m3", "weights.order byte"};  // only the strip kernel has these

/// No pool has a table of groups yet; group_test.cc runs these kernels with theirs.
const Names kNoTable = {"groups.kind ends", "groups.kind counts", "groups.kind along_k", "groups.kind slots"};
/// scale_columns_test.cc and group_test.cc run these, too.
const Names kNoColumns = {"scale_a_columns true", "epilogue.scale_b vector128"};

/// packed_groups_test.cc runs these.
const Names kNoGroups = {"groups.kind ends", "groups.kind counts", "groups.kind along_k",
                         "groups.kind slots"};

// To see it fail: remove a pool from sanitized_dense(), or "tile.n" from a kind's numbers.
TEST(pool, covers_every_value_of_every_field_in_what_sanitizers_run) {
  EXPECT_EQ(values_in_none(sanitized_dense()), with(with(kInNoDenseKernel, kNoTable), kNoSpacing));
  EXPECT_EQ(values_in_none<NarrowConfig>({only<NarrowConfig>(sanitize_narrow_pool())}),
            with(with(with(kInNoPackedKernel, kNoSpacing), kNoSmallTokens), kNoGroups));
  EXPECT_EQ(values_in_none<WideConfig>({only<WideConfig>(sanitize_wide_pool())}),
            with(with(kInNoPackedKernel, kNoSpacing), kNoSmallTokens));
  EXPECT_EQ(values_in_none<StripConfig>({only<StripConfig>(sanitize_strip_pool())}),
            with(with(kInNoPackedKernel, kNoSpacing), {"scale_x block", "scale_x vector128", "scale_d vector",
                                                       "scale_d vector128", "scale_d block"}));
}

TEST(pool, covers_what_each_kind_of_kernel_can_have_in_what_sanitizers_run) {
  std::vector<KernelConfig> all;
  for (const auto& pool : sanitized_dense()) all.insert(all.end(), pool.begin(), pool.end());
  for (const DenseKind& kind : dense_kinds())
    expect_nothing_is_missing(kind.cover(kUnseenBySanitizers), all, kind.name);
  expect_nothing_is_missing(narrow_classes(), only<NarrowConfig>(sanitize_narrow_pool()), "narrow");
  expect_nothing_is_missing(strip_classes(), only<StripConfig>(sanitize_strip_pool()), "strip");
  expect_nothing_is_missing(wide_classes(), only<WideConfig>(sanitize_wide_pool()), "wide");
}

/// Checks strided operands for each operand and layout, phases, and each width that a plain tile can have.
TEST(pool, covers_kernels_that_have_been_left_out) {
  Names seen;
  for (const KernelConfig& c : sanitize_strided_pool())
    seen.insert(std::string(name_of(c.schedule)) + " " + name_of(c.load_a) + " " + name_of(c.load_b) + " " +
                name_of(c.a_major) + name_of(c.b_major));
  for (const char* schedule : {"ping_pong", "cooperative"})
    for (const char* loads : {"strided tma", "tma strided", "strided strided"})
      for (const char* majors : {"kk", "mnmn"}) {
        const std::string name = std::string(schedule) + " " + loads + " " + majors;
        EXPECT_TRUE(seen.contains(name)) << name;
      }
  int phased = 0;
  for (const KernelConfig& c : gathering_pool()) phased += c.conv.phased;
  EXPECT_GE(phased, 2);
  std::set<int> widths, wide_tokens, strip_tokens;
  for (const KernelConfig& c : sanitize_plain_pool())
    if (c.schedule == Schedule::plain_wgmma) widths.insert(c.tile.n);
  for (int n = 16; n <= 256; n += 8) EXPECT_EQ(widths.contains(n), n != 24) << n;
  for (const WideConfig& c : only<WideConfig>(sanitize_wide_pool())) wide_tokens.insert(c.tokens);
  for (const StripConfig& c : only<StripConfig>(sanitize_strip_pool())) strip_tokens.insert(c.tokens);
  EXPECT_EQ(wide_tokens.size(), 32u);
  EXPECT_EQ(strip_tokens.size(), 24u);
}

// To see it fail: remove contract_strided_plans() or contract_field_plans().
TEST(pool, covers_every_value_of_every_field_in_what_keeps_the_contract_of_dependent_launches) {
  std::vector<std::vector<KernelConfig>> pools;
  size_t count = 0;
  for (const auto& plans : {contract_role_plans(DeviceInfo{}), contract_strided_plans(DeviceInfo{}),
                            contract_gathering_plans(DeviceInfo{}), contract_width_plans(DeviceInfo{}),
                            contract_field_plans(DeviceInfo{})}) {
    ASSERT_TRUE(plans) << plans.error().message;
    count += plans->size();
    pools.emplace_back();
    for (const Plan& plan : *plans) {
      const auto checked = gemm::sealed(plan, DeviceInfo{});
      EXPECT_TRUE(checked) << sluice::to_string(plan.config) << checked.error().message;
      EXPECT_NE(plan.config.overlap.wait, Wait::none);
      pools.back().push_back(plan.config);
    }
  }
  EXPECT_LE(count, 400u) << "each is compiled twice and runs ten times";
  EXPECT_EQ(values_in_none(pools), with(with(with(kInNoDenseKernel, kNoTable), kNoColumns),
                                        {"overlap.wait none",    // no wait: not part of the contract
                                         "combine separate"}));  // a product of two kernels cannot overlap
  std::vector<NarrowConfig> narrow;
  std::vector<StripConfig> strip;
  std::vector<WideConfig> wide;
  for (const PackedConfig& config : contract_packed_pool()) {
    const auto checked =
        packed::sealed({.problem = contract_problem(config), .config = config_of(config)}, DeviceInfo{});
    EXPECT_TRUE(checked) << short_name(config) << checked.error().message;
    if (const auto* c = std::get_if<NarrowConfig>(&config)) narrow.push_back(*c);
    if (const auto* c = std::get_if<StripConfig>(&config)) strip.push_back(*c);
    if (const auto* c = std::get_if<WideConfig>(&config)) wide.push_back(*c);
  }
  const Names in_none = with(kInNoPackedKernel, {"overlap.wait none"});
  EXPECT_EQ(values_in_none<NarrowConfig>({narrow}), with(with(in_none, kNoSmallTokens), kNoGroups));
  EXPECT_EQ(values_in_none<WideConfig>({wide}), with(in_none, kNoSmallTokens));
  EXPECT_EQ(values_in_none<StripConfig>({strip}),
            with(in_none, {"scale_x block", "scale_x vector128", "scale_d vector", "scale_d vector128",
                           "scale_d block"}));
  // Strided kernels occur for each operand, kernels of convolutions for fprop, dgrad and wgrad; both kinds in
  // ping_pong and in cooperative.
  Names seen;
  for (const auto& pool : pools)
    for (const KernelConfig& c : pool)
      seen.insert(std::string(name_of(c.schedule)) + " " + name_of(c.load_a) + " " + name_of(c.load_b) + " " +
                  name_of(c.conv.op) + (c.conv.phased ? " phased" : ""));
  for (const char* schedule : {"ping_pong", "cooperative"})
    for (const char* kind : {"strided tma none", "tma strided none", "strided strided none", "tma tma fprop",
                             "tma tma dgrad", "tma tma dgrad phased", "tma tma wgrad"})
      EXPECT_TRUE(seen.contains(std::string(schedule) + " " + kind)) << schedule << " " << kind;
}

/// Names of classes must never change, because certificates identify classes by name.
TEST(pool, covers_classes_with_names_of_their_own) {
  Names names;
  size_t count = 0;
  const auto add = [&](const char* pool, const auto& configs) {
    for (const auto& config : configs) {
      names.insert(pool + class_name(config));
      ++count;
    }
  };
  add("dense", sanitize_dense_pool());
  add("strided", sanitize_strided_pool());
  add("plain", sanitize_plain_pool());
  add("conv", sanitize_conv_field_pool());
  add("conv", conv_variants());
  add("narrow", sanitize_narrow_pool());
  add("strip", sanitize_strip_pool());
  add("wide", sanitize_wide_pool());
  EXPECT_EQ(names.size(), count);
  EXPECT_GE(sanitize_dense_pool().size() + sanitize_strided_pool().size() + sanitize_plain_pool().size(),
            350u);
  EXPECT_LE(count, 750u) << "under racecheck each takes a processor up to 10 s";
  EXPECT_EQ(class_name(KernelConfig{.stages = 3}), "cooperative_128x128x64_s3_c1x1_bf16_a8c3");
}

TEST(pool, covers_with_problems_that_each_sanitized_kernel_takes) {
  for (const auto& pool :
       {sanitize_dense_pool(), sanitize_strided_pool(), sanitize_plain_pool(), sanitize_conv_field_pool()})
    for (const KernelConfig& config : pool) {
      const std::vector<Plan> plans = sanitize_plans(config, DeviceInfo{});
      EXPECT_FALSE(plans.empty()) << sluice::to_string(config);
      for (const Plan& plan : plans) {
        const auto checked = gemm::sealed(plan, DeviceInfo{});
        EXPECT_TRUE(checked) << sluice::to_string(config) << checked.error().message;
        EXPECT_EQ(plan.config, config) << sluice::to_string(config);
        EXPECT_TRUE(holds_exact_sums(plan.problem, exact_data(plan.problem, 1))) << to_string(plan.problem);
      }
    }
  for (const ConvVariant& variant : conv_variants())
    EXPECT_FALSE(sanitize_plans(variant, DeviceInfo{}).empty()) << variant.name;
  for (const auto& pool : {sanitize_narrow_pool(), sanitize_strip_pool(), sanitize_wide_pool()})
    for (const PackedConfig& config : pool) {
      const auto checked =
          packed::sealed({.problem = sanitize_problem(config), .config = config_of(config)}, DeviceInfo{});
      EXPECT_TRUE(checked) << short_name(config) << checked.error().message;
    }
}

/// The sections "smoke" and "sanitizers" compare whole numbers bit for bit. The data must stay exact even for
/// the longest k of each kernel's pool. tests/unit/packed_data_test.cc checks random sizes.
TEST(pool, covers_with_data_that_are_exact) {
  for (const auto& pool : {sanitize_narrow_pool(), sanitize_strip_pool(), sanitize_wide_pool()})
    for (const PackedConfig& config : pool) {
      PackedProblem problem = sanitize_problem(config);
      problem.n = problem.gated ? 2 * kStripRows : 1;  // the number of columns does not affect the sums
      const auto data = packed::random_data(problem, packed::DataKind::exact, 1);
      ASSERT_TRUE(data) << data.error().message;
      EXPECT_LE(packed::largest_sum(*data), packed::exact_limit(problem) / 2) << to_string(problem);
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
  int spilling = 0, worst = 0;  // only printed here; tests/compile requires zero for registered kernels
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
