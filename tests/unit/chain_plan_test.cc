// SPDX-License-Identifier: Apache-2.0
// plan_chain(): its choice for every step, and its refusals. To see it fail: leave out `if (first)` in
// overlap_at; or reverse `begin < r.end` in Ranges::touches, which breaks the test of weights that a step
// writes.
#include <sluice/chain/chain.h>

#include "chain_fixture.h"
#include "tests/packed_problems.h"

namespace sluice {
namespace {

class ChainPlans : public ChainTest {};

TEST_F(ChainPlans, the_first_never_waits_and_the_last_never_triggers) {
  const ChainPlan plan = planned(links(4));
  ASSERT_EQ(plan.steps.size(), 4u);
  EXPECT_EQ(plan.steps[0].overlap, (Overlap{Wait::none, Trigger::at_start}));
  EXPECT_EQ(plan.steps[1].overlap, (Overlap{Wait::weights_first, Trigger::at_start, Spacing::even}));
  EXPECT_EQ(plan.steps[2].overlap, (Overlap{Wait::weights_first, Trigger::at_start, Spacing::even}));
  EXPECT_EQ(plan.steps[3].overlap, (Overlap{Wait::weights_first, Trigger::never, Spacing::even}));
  for (const PlannedStep& s : plan.steps)
    EXPECT_EQ(plan.plans[static_cast<size_t>(s.plan)].get<Plan>()->config.overlap, s.overlap);
  EXPECT_EQ(plan.plans.size(), 3u) << "equal steps in equal places share a plan";
}

TEST_F(ChainPlans, options_reach_every_step) {
  for (const PlannedStep& s : planned(links(3), {.overlap = ChainOverlap::off}).steps)
    EXPECT_EQ(s.overlap, Overlap{});
  const ChainPlan waits =
      planned(links(3), {.overlap = ChainOverlap::wait_first, .trigger = Trigger::after_loads});
  EXPECT_EQ(waits.steps[1].overlap, (Overlap{Wait::first, Trigger::after_loads, Spacing::even}));
  const ChainPlan one = planned(links(1));
  EXPECT_EQ(one.steps[0].overlap, Overlap{});
}

TEST_F(ChainPlans, a_step_may_say_its_own_but_not_against_its_place) {
  std::vector<ChainStep> steps = links(3);
  steps[1].overlap = Overlap{Wait::none, Trigger::after_loads};
  EXPECT_EQ(planned(steps).steps[1].overlap, *steps[1].overlap);
  steps = links(3);
  steps[0].overlap = Overlap{Wait::first, Trigger::never};
  refused_plan(steps, ErrorCode::invalid_argument, "step 0 (link0): the first launch of a chain never waits");
  steps = links(3);
  steps[2].overlap = Overlap{Wait::first, Trigger::at_start};
  refused_plan(steps, ErrorCode::invalid_argument,
               "step 2 (link2): the last launch of a chain never triggers");
}

TEST_F(ChainPlans, what_launches_nothing_is_no_place) {
  std::vector<ChainStep> steps = links(4);
  product(steps[0]).problem.m = 0;
  product(steps[3]).problem.n = 0;
  const ChainPlan plan = planned(steps);
  EXPECT_FALSE(plan.steps[0].launched);
  EXPECT_EQ(plan.steps[1].overlap.wait, Wait::none) << "it is the first that launches";
  EXPECT_EQ(plan.steps[2].overlap.trigger, Trigger::never) << "it is the last that launches";
  EXPECT_EQ(made(steps).kernels(), 2);
}

TEST_F(ChainPlans, hands_over_rows_of_the_next_weights_evenly_spread_and_no_more_than_there_are) {
  std::vector<ChainStep> steps = links(3);
  steps[1].hand_off_bytes = 1 << 30;
  const ChainPlan plan = planned(steps, {.overlap = ChainOverlap::wait_first, .hand_off_bytes = 4096});
  const WarmRange share = plan.steps[0].hand_off;
  EXPECT_EQ(share.data, product(steps[1]).args.b);
  EXPECT_EQ(total_bytes(share), 4096);
  EXPECT_EQ(share.bytes, kWidth) << "a row";
  EXPECT_EQ(share.step >> 32, 16u) << "every sixteenth";
  EXPECT_EQ(plan.steps[1].hand_off.bytes, kWidth * kWidth) << "all of them: one chunk";
  EXPECT_EQ(plan.steps[1].hand_off.chunks, 1u);
  EXPECT_EQ(plan.steps[2].hand_off.bytes, 0) << "nothing comes behind the last";
  EXPECT_EQ(planned(links(2)).steps[0].hand_off.bytes, 0);
}

TEST_F(ChainPlans, hands_over_nothing_that_rings_hold_but_what_comes_behind_it) {
  std::vector<ChainStep> steps = links(3);
  ProductStep& large = product(steps[2]);
  large.problem.n = 4096;
  large.problem.k = 16384;
  large.args.a = driver.memory(kRows * 16384);
  large.args.b = driver.memory(i64{4096} * 16384);
  large.args.d = driver.memory(kRows * 4096);
  const ChainPlan plan = planned(steps, {.overlap = ChainOverlap::weights_first, .hand_off_bytes = 1 << 20});
  const auto* b = static_cast<const u8*>(large.args.b);
  const auto* from = static_cast<const u8*>(plan.steps[0].hand_off.data);
  EXPECT_GT(from, b) << "the head of a row is in the rings of its own launch";
  EXPECT_LT(from, b + 16384);
  EXPECT_GT(total_bytes(plan.steps[0].hand_off), (1 << 20) - 16384);
  EXPECT_EQ(total_bytes(plan.steps[1].hand_off), 0) << "they are there already";
}

TEST_F(ChainPlans, a_row_that_does_not_fit_is_handed_over_in_part) {
  const ChainPlan plan = planned(links(2), {.overlap = ChainOverlap::wait_first, .hand_off_bytes = 100});
  EXPECT_EQ(plan.steps[0].hand_off.bytes, 100);
  EXPECT_EQ(plan.steps[0].hand_off.chunks, 1u);
}

TEST_F(ChainPlans, prefetches_its_own_weights_where_it_waits_but_what_its_rings_hold) {
  std::vector<ChainStep> steps = links(2);
  const ChainPlan first = planned(steps, {.overlap = ChainOverlap::wait_first, .prefetch_bytes = 1024});
  EXPECT_EQ(first.steps[0].prefetch.bytes, 0) << "it does not wait";
  EXPECT_EQ(total_bytes(first.steps[1].prefetch), 1024);
  EXPECT_EQ(first.steps[1].prefetch.data, product(steps[1]).args.b);
  EXPECT_EQ(planned(steps, {.prefetch_bytes = 1024}).steps[1].prefetch.bytes, 0)
      << "256 of k are in its stages already";

  std::vector<ChainStep> longer = steps;
  Problem& p = product(longer[1]).problem;
  p.n = 64;
  p.k = 131072;
  p.d.type = DType::bf16;
  product(longer[1]).args = args_for(p);
  product(longer[1]).overrides.schedule = Schedule::plain;
  const ChainPlan plan = planned(longer, {.prefetch_bytes = 1 << 20});
  const KernelConfig& c = plan.plans[static_cast<size_t>(plan.steps[1].plan)].get<Plan>()->config;
  ASSERT_EQ(c.schedule, Schedule::plain);
  const i64 head = 128 * (c.stages - 1) * c.warps;
  const WarmRange tails = plan.steps[1].prefetch;
  ASSERT_LT(head, p.k / c.cluster.k);
  EXPECT_EQ(tails.data, shifted(product(longer[1]).args.b, head));
  EXPECT_EQ(tails.bytes, p.k / c.cluster.k - head);
  EXPECT_EQ(tails.stride, p.k / c.cluster.k);
  EXPECT_EQ(tails.ctas, 132u) << "as many as are there at once in any case";
  EXPECT_LE(total_bytes(tails), 1 << 20);
  EXPECT_GT(total_bytes(tails), (1 << 20) - p.k);
}

WarmRange share_of(const ChainStep& step, i64 bytes) {
  return step_of(step)->share_of_weights(bytes, {});
}

TEST_F(ChainPlans, shares_of_weights_of_every_layout) {
  Problem p{.m = 64, .n = 512, .k = 256};
  p.b = {.major = Major::mn, .ld = 520};
  std::vector<ChainStep> steps = links(2);
  steps[1] = {.work = ProductStep{.problem = p, .args = args_for(p)}};
  WarmRange share = share_of(steps[1], 64 * 1024);
  EXPECT_EQ(share.bytes, 1024) << "n";
  EXPECT_EQ(share.stride, 1040);
  EXPECT_EQ(share.chunks, 64u) << "of 256 rows of k";
  p.b = {.batch_stride = 512 * 256};
  p.batch = 3;
  steps[1].work = ProductStep{.problem = p, .args = args_for(p)};
  EXPECT_EQ(total_bytes(share_of(steps[1], 1 << 30)), 3 * 512 * 256 * 2);
  p.b.batch_stride += 64;
  steps[1].work = ProductStep{.problem = p, .args = args_for(p)};
  EXPECT_EQ(total_bytes(share_of(steps[1], 1 << 30)), 512 * 256 * 2) << "gaps: the first matrix";
  const PackedProblem packed{.m = 4, .n = 4096, .k = 4096};
  steps[1].work = ProductStep{.problem = packed, .args = {.b = steps.data()}};
  share = share_of(steps[1], 1 << 20);
  EXPECT_EQ(share.bytes, 2048);
  EXPECT_EQ(share.chunks, 512u);
  EXPECT_EQ(share_of(links(1)[0], 0).bytes, 0);
}

TEST_F(ChainPlans, weights_that_a_step_in_front_writes_are_refused_where_they_are_read_early) {
  std::vector<ChainStep> steps = links(3);
  void* shared = driver.memory(kWidth * kWidth);
  product(steps[0]).args.d = shared;
  product(steps[2]).args.b = shared;
  refused_plan(steps, ErrorCode::aliasing, "step 2 (link2): B (");
  planned(steps, {.overlap = ChainOverlap::off});
  refused_plan(steps, ErrorCode::aliasing, "step 2 (link2): B (", {.overlap = ChainOverlap::wait_first});
  steps[2].overlap = Overlap{Wait::first, Trigger::never};
  refused_plan(steps, ErrorCode::aliasing, "wait = none");
  steps[2].overlap = Overlap{};
  planned(steps);
  steps[2].overlap.reset();
  // Step 0 has ended when step 2 begins, so step 2 may write its input.
  steps[1].overlap = Overlap{Wait::none, Trigger::at_start};
  planned(steps);
  steps = links(3);  // writes by later steps are harmless
  product(steps[2]).args.d = const_cast<void*>(product(steps[0]).args.b);
  planned(steps);
}

TEST_F(ChainPlans, activations_may_be_used_again) {
  std::vector<ChainStep> steps = links(4);
  product(steps[2]).args.d = product(steps[0]).args.d;  // step 1 reads this memory
  product(steps[3]).args.a = product(steps[2]).args.d;
  planned(steps);
}

TEST_F(ChainPlans, a_small_footprint_takes_stages_and_says_when_it_cannot) {
  std::vector<ChainStep> steps = links(2);
  const ChainPlan whole = planned(steps);
  const int stages = whole.plans[1].get<Plan>()->config.stages;
  ASSERT_GT(stages, 2);
  const ChainPlan fewer = planned(steps, {.most_stages = 2});
  EXPECT_EQ(fewer.plans[1].get<Plan>()->config.stages, 2);
  EXPECT_LT(fewer.plans[1].get<Plan>()->smem_bytes, whole.plans[1].get<Plan>()->smem_bytes);
  const i64 limit = whole.plans[1].get<Plan>()->smem_bytes - 1;
  const ChainPlan small = planned(steps, {.smem_limit = limit});
  EXPECT_LE(small.plans[1].get<Plan>()->smem_bytes, limit);
  EXPECT_EQ(small.plans[1].get<Plan>()->config.stages, stages - 1);
  refused_plan(steps, ErrorCode::invalid_config, "smem_limit = 1000", {.smem_limit = 1000});
}

TEST_F(ChainPlans, sums_in_one_order_whatever_the_overlap) {
  // Planned alone, this product's slices are added up by a second kernel. In a chain, one kernel does both.
  Problem p{.m = 128, .n = 128, .k = 131072};
  const auto alone = gemm::plan(p, device().info(), {.ignore_records = true});
  ASSERT_TRUE(alone.ok());
  ASSERT_EQ(alone->config.combine, Combine::separate) << "choose another problem for this test";
  std::vector<ChainStep> steps = links(1);
  steps.push_back(
      {.work = ProductStep{.problem = p, .overrides = {.ignore_records = true}, .args = args_for(p)}});
  for (const ChainOverlap overlap : {ChainOverlap::off, ChainOverlap::weights_first}) {
    ChainPlan plan = planned(steps, {.overlap = overlap});
    KernelConfig config = plan.plans[1].get<Plan>()->config;
    EXPECT_EQ(config.combine, Combine::last_arriver) << name_of(overlap);
    EXPECT_EQ(plan.steps[1].overlap.wait != Wait::none, overlap != ChainOverlap::off);
  }
}

TEST_F(ChainPlans, refuses_what_the_chain_sets_itself) {
  std::vector<ChainStep> steps = links(2);
  product(steps[1]).overrides.overlap = {Wait::first, Trigger::never};
  refused_plan(steps, ErrorCode::invalid_argument, "step 1 (link1): PlanOverrides::overlap");
  steps = links(2);
  product(steps[0]).args.hand_off = {product(steps[1]).args.b, 16};
  refused_plan(steps, ErrorCode::invalid_argument, "hand_off_bytes");
  steps = links(2);
  product(steps[0]).args.workspace = {product(steps[1]).args.d, 16};
  refused_plan(steps, ErrorCode::invalid_argument, "enqueue");
  refused_plan(links(2), ErrorCode::invalid_argument, "negative", {.hand_off_bytes = -1});
  steps = links(1);
  steps.push_back({.work = QuantizerStep{.granularity = Granularity::tensor, .shape = {4, 8}}});
  refused_plan(steps, ErrorCode::invalid_argument, "scale_given");
}

TEST_F(ChainPlans, options_and_shapes_of_companions_are_looked_at) {
  const auto refused = [&](auto work, ErrorCode code, const std::string& mention) {
    std::vector<ChainStep> steps = links(1);
    steps.push_back({.work = work, .name = "companion"});
    refused_plan(steps, code, "step 1 (companion): " + mention);
  };
  refused(NormStep{.options = {.quantize = Granularity::square_block}, .shape = {16, 256}},
          ErrorCode::invalid_argument, "quantize is square_block");
  refused(NormStep{.options = {.input = DType::fp32}, .shape = {16, 256}}, ErrorCode::invalid_type,
          "input is fp32");
  refused(NormStep{.shape = {16, 1 << 20}}, ErrorCode::invalid_size, "columns = 1048576");
  refused(NormStep{.shape = {16, -5}}, ErrorCode::invalid_size, "rows = 16, columns = -5");
  refused(NormStep{.shape = {.rows = 16, .columns = 256, .output_ld = 8}}, ErrorCode::invalid_stride,
          "output_ld = 8");
  refused(QuantizerStep{.granularity = {}, .shape = {16, 256}}, ErrorCode::invalid_argument,
          "there is neither");
  refused(QuantizerStep{.granularity = Granularity::row, .shape = {-16, 256}}, ErrorCode::invalid_size,
          "rows = -16");
  refused(
      QuantizerStep{.granularity = Granularity::row, .shape = {.rows = 16, .columns = 256, .input_ld = 64}},
      ErrorCode::invalid_stride, "input_ld = 64");
}

TEST_F(ChainPlans, spacing_is_of_launches_that_begin_early) {
  const ChainPlan plan =
      planned(links(3), {.overlap = ChainOverlap::weights_first, .spacing = Spacing::registers});
  EXPECT_EQ(plan.steps[0].overlap.spacing, Spacing::memory);
  EXPECT_EQ(plan.steps[1].overlap.spacing, Spacing::registers);
  EXPECT_EQ(planned(links(3), {.overlap = ChainOverlap::off, .spacing = Spacing::none}).steps[1].overlap,
            Overlap{});
}

TEST_F(ChainPlans, errors_of_a_plan_have_the_steps_name) {
  std::vector<ChainStep> steps = links(2);
  product(steps[1]).problem.a.ld = 3;
  refused_plan(steps, ErrorCode::invalid_stride, "step 1 (link1): a.ld = 3");
}

TEST_F(ChainPlans, text_has_a_line_a_step) {
  const std::string text =
      explain(planned(links(2), {.overlap = ChainOverlap::wait_first, .hand_off_bytes = 4096}));
  EXPECT_NE(text.find("link0  16x256x256"), std::string::npos) << text;
  EXPECT_NE(text.find("wait none, trigger at_start, hand-off 0.00 MB"), std::string::npos) << text;
  EXPECT_NE(text.find("wait first, trigger never"), std::string::npos) << text;
  EXPECT_NE(text.find("all 2 steps"), std::string::npos) << text;
}

TEST(chain_ratios, are_translated) {}

}  // namespace
}  // namespace sluice
