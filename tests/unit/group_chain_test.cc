// SPDX-License-Identifier: Apache-2.0
// A layer of experts as a chain on the fake driver: sort, gather, two products of groups, sum. Products of
// groups read their table first, so they load no weights early and none of theirs are prefetched.
#include <sluice/spec/packed.h>

#include "chain_fixture.h"

namespace sluice {
namespace {

class GroupChain : public ChainTest {
 protected:
  static constexpr i64 kTokens = 8, kChosen = 4, kExperts = 16, kSlots = kTokens * kChosen, kInner = 128;

  static Problem problem(i64 n, i64 k, GroupKind kind = GroupKind::ends) {
    Problem p{.m = kSlots, .n = n, .k = k, .batch = kExperts};
    p.groups.kind = kind;
    return p;
  }
  ChainStep grouped(const char* name, const Problem& p, const void* a, void* d) {
    return {.work = ProductStep{.problem = p,
                                .overrides = {.ignore_records = true},
                                .args = {.a = a,
                                         .b = driver.memory(kExperts * p.n * p.k * 2),
                                         .d = d,
                                         .groups = static_cast<const int*>(ends_)}},
            .name = name};
  }
  /// Returns the steps of a layer, and a dense product behind it.
  std::vector<ChainStep> layer() {
    void *rows = driver.memory(kSlots * kWidth * 2), *inner = driver.memory(kSlots * kInner * 2),
         *out = driver.memory(kTokens * kWidth * 2);
    int *row_of_slot = static_cast<int*>(driver.memory(4 * kSlots)),
        *token_of_row = static_cast<int*>(driver.memory(4 * kSlots));
    const RouteArgs routing{.ids = driver.memory(4 * kSlots),
                            .ends = static_cast<int*>(ends_),
                            .row_of_slot = row_of_slot,
                            .token_of_row = token_of_row};
    const QuantizerStep gather{.granularity = Granularity::row,
                               .shape = {.rows = kSlots, .columns = kWidth, .input_rows = kTokens},
                               .args = {.input = driver.memory(kTokens * kWidth * 2),
                                        .output = rows,
                                        .scales = static_cast<float*>(driver.memory(4 * kSlots)),
                                        .row_index = token_of_row},
                               .gathered = true};
    Problem up = problem(2 * kInner, kWidth), head{.m = kTokens, .n = kWidth, .k = kWidth};
    up.epilogue.gated = true, up.epilogue.activation = Activation::silu;
    up.a.type = up.b.type = DType::e4m3;
    void* y = driver.memory(kSlots * kWidth * 2);
    const CombineArgs sum{.y = y, .row_of_slot = row_of_slot, .out = out};
    return {{.work = route_step(
                 {}, {.tokens = kTokens, .chosen = kChosen, .experts = kExperts, .rows = kSlots}, routing),
             .name = "route"},
            {.work = gather, .name = "gather"},
            grouped("gate_up", up, rows, inner),
            grouped("down", problem(kWidth, kInner), inner, y),
            {.work = combine_step(
                 {}, {.tokens = kTokens, .columns = kWidth, .chosen = kChosen, .rows = kSlots}, sum),
             .name = "combine"},
            {.work = ProductStep{.problem = head,
                                 .overrides = {.ignore_records = true},
                                 .args = {.a = out,
                                          .b = driver.memory(kWidth * kWidth * 2),
                                          .d = driver.memory(kTokens * kWidth * 2)}},
             .name = "head"}};
  }
  static bool has_groups_in(const PlannedStep& step) {
    const auto* product = std::get_if<ProductStep>(&step.step.work);
    return product != nullptr && reads_table(product->problem);
  }

  void* ends_ = driver.memory(4 * kExperts);
};

TEST_F(GroupChain, waits_before_its_table_and_is_handed_no_weights) {
  for (const ChainOverlap overlap : {ChainOverlap::weights_first, ChainOverlap::wait_first}) {
    const ChainPlan plan =
        planned(layer(), {.overlap = overlap, .hand_off_bytes = 4096, .prefetch_bytes = 512});
    i64 handed = 0;
    for (const PlannedStep& step : plan.steps) {
      handed += total_bytes(step.hand_off);
      if (!has_groups_in(step)) continue;
      EXPECT_EQ(step.overlap.wait, Wait::first) << step.step.name;
      EXPECT_EQ(total_bytes(step.prefetch), 0) << step.step.name;
      EXPECT_GT(step.weight_bytes, 0) << step.step.name;
    }
    const bool early = overlap == ChainOverlap::weights_first;
    EXPECT_EQ(plan.steps.back().overlap.wait, early ? Wait::weights_first : Wait::first);
    EXPECT_EQ(handed, early ? 0 : 4096) << "the last product's weights alone, unless its rings load all";
  }
}

TEST_F(GroupChain, is_launched_in_order_and_captured) {
  const Chain chain = made(layer());
  EXPECT_EQ(chain.kernels(), 6);
  EXPECT_EQ(chain.programmatic_edges(), 5);
  ASSERT_TRUE(chain.enqueue(nullptr).ok());
  ASSERT_EQ(driver.launches(), 6);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(driver.launch(i).dependent, i > 0) << i;
  Result<StreamHandle> stream = StreamHandle::create(device());
  ASSERT_TRUE(stream.ok());
  EXPECT_TRUE(ChainGraph::capture(chain, stream->get()).ok());
}

TEST_F(GroupChain, takes_packed_experts) {
  std::vector<ChainStep> steps = layer();
  Problem& down = product(steps[3]).problem;
  down =
      packed_problem(kSlots, kWidth, kInner, DType::bf16, DType::bf16, {.group = 128, .scale = DType::bf16});
  down.batch = kExperts, down.groups.kind = GroupKind::ends;
  const ChainPlan plan = planned(steps, {.hand_off_bytes = 4096});
  EXPECT_EQ(plan.steps[3].overlap.wait, Wait::first);
  EXPECT_EQ(plan.steps[3].weight_bytes, kExperts * blob_bytes(down));
  EXPECT_TRUE(made(steps).enqueue(nullptr).ok());
  EXPECT_EQ(driver.launches(), 6);
}

TEST_F(GroupChain, weights_of_groups_are_not_written_and_their_table_is) {
  std::vector<ChainStep> steps = layer();
  product(steps[3]).args.b = product(steps[2]).args.d;
  refused_plan(steps, ErrorCode::aliasing, "step 3 (down): B");
}

TEST_F(GroupChain, sums_over_groups_are_refused) {
  Problem p = problem(kWidth, kWidth, GroupKind::along_k);
  p.a.major = p.b.major = Major::mn;
  refused_plan({grouped("gradient", p, driver.memory(1 << 20), driver.memory(1 << 22))},
               ErrorCode::invalid_argument, "step 0 (gradient): a product of groups along k");
}

TEST_F(GroupChain, a_table_must_be_given) {
  std::vector<ChainStep> steps = layer();
  product(steps[2]).args.groups = nullptr;
  const Result<Chain> chain = Chain::prepare(device(), steps);
  ASSERT_FALSE(chain.ok());
  EXPECT_EQ(chain.error().code, ErrorCode::invalid_pointer);
  EXPECT_NE(chain.error().message.find("groups"), std::string::npos) << chain.error().message;
}

}  // namespace
}  // namespace sluice
