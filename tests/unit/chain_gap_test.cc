// SPDX-License-Identifier: Apache-2.0
// Gaps of a chain, where the caller launches between two parts: parts, both edges, check() of a captured
// graph, and the stand-in of the tuner. To see it fail: give own_overlap() of a foreign step Wait::none, let
// enqueue_part() begin one launch later, or leave the loop over edges out of Chain::check.
#include <algorithm>

#include <sluice/chain/chain.h>
#include <sluice/chain/tuning/stand_in.h>
#include <sluice/chain/tuning/tune.h>
#include <sluice/plan/records/record_book.h>
#include <sluice/plan/records/tuned_chain.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/graph_edges.h>
#include <sluice/run/driver/launch.h>

#include "chain_fixture.h"

namespace sluice {
namespace {

class Gaps : public ChainTest {
 protected:
  static ChainStep gap(bool waits, bool triggers, int nodes = 1) {
    return {.work = ForeignStep{.nodes = nodes, .waits = waits, .overlapped = triggers, .writes = {{}}},
            .name = "attention"};
  }
  /// Four products with a gap behind the second.
  std::vector<ChainStep> steps_with(const ChainStep& between) {
    std::vector<ChainStep> steps = links(4);
    steps.insert(steps.begin() + 2, between);
    return steps;
  }
  StreamHandle stream() { return *StreamHandle::create(device()); }
  /// Captures parts with `launches` ordinary or dependent launches in each gap.
  Result<void> check(const Chain& chain, int launches, bool dependent,
                     const std::function<void(Stream)>& behind_first = {}) {
    const StreamHandle s = stream();
    const auto module = *device().impl().load_unit("kernel of the caller", 0);
    const u32 params = 0;
    const auto enqueue = [&]() -> Result<void> {
      for (int part = 0; part < chain.parts(); ++part) {
        if (Result<void> done = chain.enqueue_part(part, s.get()); !done) return done;
        if (part == 0 && behind_first) behind_first(s.get());
        for (int i = 0; i < launches && part + 1 < chain.parts(); ++i)
          if (Result<void> done =
                  launch_kernel(*device().impl().api, module->function(),
                                {.block_x = 32, .dependent = dependent && i == 0}, &params, s.get());
              !done)
            return done;
      }
      return {};
    };
    Result<void> verdict;
    const Result<Graph> graph =
        Graph::capture(device(), s.get(), enqueue, [&](CUgraph captured) -> Result<void> {
          verdict = chain.check(captured);
          return {};
        });
    EXPECT_TRUE(graph.ok());
    return verdict;
  }
  void expect_refused(const Result<void>& verdict, const std::string& mention) {
    ASSERT_FALSE(verdict.ok()) << "expected a refusal that mentions " << mention;
    EXPECT_EQ(verdict.error().code, ErrorCode::internal);
    EXPECT_NE(verdict.error().message.find(mention), std::string::npos) << verdict.error().message;
  }
};

TEST_F(Gaps, divide_a_chain_into_parts) {
  const Chain chain = made(steps_with(gap(true, true)));
  EXPECT_EQ(chain.parts(), 2);
  EXPECT_EQ(chain.kernels(), 5);
  EXPECT_EQ(chain.programmatic_edges(), 4) << "all but the first";
  ASSERT_TRUE(chain.enqueue_part(0, nullptr).ok());
  EXPECT_EQ(driver.launches(), 2);
  ASSERT_TRUE(chain.enqueue_part(1, nullptr).ok());
  EXPECT_EQ(driver.launches(), 4);
  EXPECT_FALSE(driver.launch(0).dependent);
  for (int i = 1; i < 4; ++i) EXPECT_TRUE(driver.launch(i).dependent) << i;
  for (const int part : {-1, 2}) {
    const Result<void> done = chain.enqueue_part(part, nullptr);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(done.error().message.find("0..1"), std::string::npos) << done.error().message;
  }
  const Result<void> whole = chain.enqueue(nullptr);
  ASSERT_FALSE(whole.ok());
  EXPECT_NE(whole.error().message.find("1 gaps"), std::string::npos) << whole.error().message;
  EXPECT_EQ(driver.launches(), 4);
}

TEST_F(Gaps, at_both_ends_make_empty_parts) {
  std::vector<ChainStep> steps = links(1);
  steps.insert(steps.begin(), gap(true, true));
  steps.push_back(gap(true, true));
  const Chain chain = made(steps);
  EXPECT_EQ(chain.parts(), 3);
  EXPECT_EQ(chain.programmatic_edges(), 2) << "nothing of the chain is in front of the first gap";
  ASSERT_TRUE(chain.enqueue_part(0, nullptr).ok());
  EXPECT_EQ(driver.launches(), 0);
  ASSERT_TRUE(chain.enqueue_part(1, nullptr).ok());
  ASSERT_TRUE(chain.enqueue_part(2, nullptr).ok());
  EXPECT_EQ(driver.launches(), 1);
}

TEST_F(Gaps, promise_each_edge_by_itself) {
  for (const bool waits : {false, true})
    for (const bool triggers : {false, true}) {
      const ChainPlan plan = planned(steps_with(gap(waits, triggers)));
      EXPECT_EQ(plan.steps[2].overlap.wait, waits ? Wait::first : Wait::none);
      EXPECT_EQ(plan.steps[3].overlap.wait, triggers ? Wait::weights_first : Wait::none);
      EXPECT_EQ(made(steps_with(gap(waits, triggers))).programmatic_edges(), 2 + waits + triggers);
      EXPECT_EQ(explain(plan).find("waits") != std::string::npos, waits) << explain(plan);
    }
}

TEST_F(Gaps, that_wait_behind_one_that_does_not_trigger_are_refused) {
  std::vector<ChainStep> steps = steps_with(gap(true, true));
  steps.insert(steps.begin() + 2, gap(false, false));
  refused_plan(steps, ErrorCode::invalid_argument, "step 3 (attention): it waits, and the step before it");
  std::vector<ChainStep> none = steps_with(gap(true, true, 0));
  refused_plan(none, ErrorCode::invalid_argument, "a gap has at least one launch");
  std::vector<ChainStep> slow = steps_with(gap(true, true));
  std::get<ForeignStep>(slow[2].work).stand_in_us = -1;
  refused_plan(slow, ErrorCode::invalid_argument, "stand_in_us = -1");
}

TEST_F(Gaps, that_wait_leave_earlier_writes_unfinished) {
  // The product behind the gap reads weights early, which a product in front of the gap writes.
  for (const bool waits : {false, true}) {
    std::vector<ChainStep> steps = steps_with(gap(waits, true));
    product(steps[3]).args.b = product(steps[0]).args.d;
    if (waits)
      refused_plan(steps, ErrorCode::aliasing, "step 3 (link2): B");
    else
      planned(steps);
  }
}

TEST_F(Gaps, are_found_in_a_captured_graph) {
  const Chain chain = made(steps_with(gap(true, true)));
  EXPECT_TRUE(check(chain, 1, true).ok());
  expect_refused(check(chain, 1, false), "step 2 (attention): it begins behind an ordinary edge");
  expect_refused(check(chain, 2, true), "step 3 (link2): in its place the graph has a kernel behind the gap");
  expect_refused(check(chain, 0, true), "step 3 (link2): in its place");
  const Chain ordinary = made(steps_with(gap(false, false)));
  EXPECT_TRUE(check(ordinary, 1, false).ok());
  expect_refused(check(ordinary, 1, true),
                 "step 2 (attention): it may begin before step 1 (link1) has ended");
  EXPECT_TRUE(check(made(steps_with(gap(true, true, 2))), 2, true).ok());
  driver.make_edges_full();
  expect_refused(check(chain, 1, true), "step 1 (link1): it begins behind an ordinary edge");
}

TEST_F(Gaps, with_foreign_nodes_between_are_refused) {
  const Chain chain = made(steps_with(gap(true, true)));
  const auto clear = [&](Stream s) {
    void* memory = driver.memory(64);
    ASSERT_EQ(device().impl().api->cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(memory), 0, 64, s),
              CUDA_SUCCESS);
  };
  expect_refused(check(chain, 1, true, clear),
                 "step 3 (link2): in its place the graph has a kernel behind the gap");
}

TEST_F(Gaps, are_filled_for_the_tuner) {
  const std::vector<ChainStep> steps = steps_with(gap(true, true, 3));
  const auto filled = tuning::with_stand_ins(device(), steps);
  ASSERT_TRUE(filled.ok());
  const auto& stand_in = std::get<ForeignStep>((*filled)[2].work);
  EXPECT_EQ(stand_in.nodes, 1);
  const Chain chain = made(*filled);
  ASSERT_TRUE(chain.enqueue(nullptr).ok());
  EXPECT_EQ(driver.launches(), 5);
  EXPECT_TRUE(driver.launch(2).dependent);
  EXPECT_EQ(driver.launch(2).grid_x, static_cast<u32>(device().info().sm_count));
  const StreamHandle s = stream();
  EXPECT_TRUE(ChainGraph::capture(chain, s.get()).ok());
}

TEST_F(Gaps, survive_the_guard) {
  const Result<Chain> chain = Chain::guarded(device(), steps_with(gap(true, true)));
  ASSERT_TRUE(chain.ok()) << chain.error().message;
  EXPECT_EQ(chain->parts(), 2);
}

TEST_F(Gaps, are_in_records) {
  const std::vector<ChainStep> layer = steps_with(gap(true, true));
  const std::vector<TunedStep> choices(layer.size());
  const StepRecipe recipe = tuned_steps(layer, choices)[2].recipe;
  EXPECT_EQ(recipe, (StepRecipe{ForeignRecipe{.overlapped = true, .waits = true}}));
  EXPECT_NE(recipe, (StepRecipe{ForeignRecipe{.overlapped = true}}));
}

/// To see it fail: take the comparison with first_foreign() out of RecordBook::find.
TEST_F(Gaps, take_records_of_the_same_promises_alone) {
  const std::vector<ChainStep> layer = steps_with(gap(true, true));
  TunedChain tuned{.gpu = device().info().name, .sm_count = device().info().sm_count};
  tuned.steps = tuned_steps(layer, std::vector<TunedStep>(layer.size()));
  const RecordBook book = book_of(ParsedRecords{.chains = {tuned}});
  const auto taken = [&](const std::vector<ChainStep>& steps) {
    const Result<ChainPlan> plan = plan_chain(steps, device().info(), {}, book);
    EXPECT_TRUE(plan.ok());
    return std::count_if(plan->steps.begin(), plan->steps.end(), [](const auto& step) { return step.tuned; });
  };
  EXPECT_EQ(taken(layer), 4);
  EXPECT_EQ(taken(steps_with(gap(true, false))), 0);
  EXPECT_EQ(taken(links(4)), 0);
}

}  // namespace
}  // namespace sluice
