// SPDX-License-Identifier: Apache-2.0
// Foreign steps, the caller's own, in a chain: their neighbours, a graph's nodes, and the hand-off across
// them. To see it fail: leave `behind_foreign` out of overlap_at; the next step then waits for a launch that
// never triggers. Or leave out the check of `anything`.
#include <sluice/chain/chain.h>

#include "chain_fixture.h"

namespace sluice {
namespace {

class ForeignSteps : public ChainTest {
 protected:
  /// Wraps the launches of `link` as a foreign step.
  ChainStep foreign(const ChainStep& link, int nodes = 1) {
    const Chain other = made({link}, {.overlap = ChainOverlap::off});
    ForeignStep step{.enqueue = [other, nodes](Stream stream) -> Result<void> {
                       for (int i = 0; i < nodes; ++i)
                         if (Result<void> done = other.enqueue(stream); !done) return done;
                       return {};
                     },
                     .nodes = nodes};
    return {.work = step, .name = "attention"};
  }
  static ForeignStep& foreign_of(ChainStep& step) { return std::get<ForeignStep>(step.work); }
  /// Returns four steps: link, foreign, link, link.
  std::vector<ChainStep> steps_around(int nodes = 1) {
    std::vector<ChainStep> steps = links(4);
    steps[1] = foreign(steps[1], nodes);
    return steps;
  }
  StreamHandle stream() { return *StreamHandle::create(device()); }
};

TEST_F(ForeignSteps, have_ordinary_edges_before_and_behind) {
  const std::vector<ChainStep> steps = steps_around(3);
  const ChainPlan plan = planned(steps);
  EXPECT_EQ(plan.steps[0].overlap, (Overlap{Wait::none, Trigger::at_start}));
  EXPECT_EQ(plan.steps[1].overlap, Overlap{});
  EXPECT_EQ(plan.steps[2].overlap, (Overlap{Wait::none, Trigger::at_start}));
  EXPECT_EQ(plan.steps[3].overlap, (Overlap{Wait::weights_first, Trigger::never, Spacing::even}));
  EXPECT_NE(explain(plan).find("attention  3 foreign"), std::string::npos) << explain(plan);
  const Chain chain = made(steps);
  EXPECT_EQ(chain.kernels(), 6);
  EXPECT_EQ(chain.programmatic_edges(), 1);
  const StreamHandle s = stream();
  const Result<ChainGraph> graph = ChainGraph::capture(chain, s.get());
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_EQ(graph->kernels(), 6);
  EXPECT_EQ(graph->programmatic_edges(), 1);
}

TEST_F(ForeignSteps, that_are_overlapped_have_a_programmatic_edge_behind) {
  std::vector<ChainStep> steps = steps_around();
  foreign_of(steps[1]).overlapped = true;
  foreign_of(steps[1]).writes = {{}};
  const ChainPlan plan = planned(steps);
  EXPECT_EQ(plan.steps[2].overlap.wait, Wait::weights_first);
  const Chain chain = made(steps);
  EXPECT_EQ(chain.programmatic_edges(), 2);
  const StreamHandle s = stream();
  ASSERT_TRUE(ChainGraph::capture(chain, s.get()).ok());
  EXPECT_FALSE(driver.launch(1).dependent);
  EXPECT_TRUE(driver.launch(2).dependent);
}

TEST_F(ForeignSteps, of_another_number_of_nodes_than_said_are_refused) {
  std::vector<ChainStep> steps = steps_around(2);
  foreign_of(steps[1]).nodes = 1;
  const StreamHandle s = stream();
  const Result<ChainGraph> graph = ChainGraph::capture(made(steps), s.get());
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().code, ErrorCode::internal);
  EXPECT_NE(graph.error().message.find("5 nodes and"), std::string::npos) << graph.error().message;
  EXPECT_NE(graph.error().message.find("ForeignStep::nodes"), std::string::npos) << graph.error().message;
}

TEST_F(ForeignSteps, that_fail_are_the_error_of_enqueue_and_of_capture) {
  std::vector<ChainStep> steps = steps_around();
  foreign_of(steps[1]).enqueue = [](Stream) -> Result<void> { return Error{ErrorCode::io, "no network"}; };
  const Chain chain = made(steps);
  const Result<void> done = chain.enqueue(nullptr);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().message, "no network");
  EXPECT_EQ(driver.launches(), 1) << "those before it stay enqueued";
  const StreamHandle s = stream();
  const Alive before = driver.alive();
  EXPECT_FALSE(ChainGraph::capture(chain, s.get()).ok());
  EXPECT_EQ(driver.alive(), before);
}

TEST_F(ForeignSteps, the_hand_off_passes_over_them_and_what_has_no_weights) {
  std::vector<ChainStep> steps = steps_around();
  const auto planned_with = [&](i64 bytes) {  // above this size, the rings hold nothing of the weights
    return planned(steps, {.overlap = ChainOverlap::wait_first, .hand_off_bytes = bytes});
  };
  ChainPlan plan = planned_with(4096);
  EXPECT_EQ(plan.steps[0].hand_off.data, product(steps[2]).args.b);
  EXPECT_EQ(total_bytes(plan.steps[0].hand_off), 4096);
  EXPECT_EQ(plan.steps[1].hand_off.bytes, 0);
  EXPECT_EQ(plan.steps[2].hand_off.data, product(steps[3]).args.b) << "as ever";

  const QuantizerStep between{.shape = {.rows = kRows, .columns = kWidth},
                              .args = {.input = driver.memory(kRows * kWidth * 2),
                                       .output = driver.memory(kRows * kWidth),
                                       .scales = static_cast<float*>(driver.memory(4)),
                                       .scale_given = true}};
  const ChainStep second = steps[1];  // makes two adjacent foreign steps
  steps.insert(steps.begin() + 2, {.work = between, .name = "quantise"});
  steps.insert(steps.begin() + 2, second);
  steps[0].hand_off_bytes = 4096;
  plan = planned_with(512);
  EXPECT_EQ(total_bytes(plan.steps[0].hand_off), 4096);
  EXPECT_EQ(plan.steps[0].hand_off.data, product(steps[4]).args.b);
  EXPECT_EQ(plan.steps[3].hand_off.bytes, 0) << "they are there already";
  EXPECT_EQ(total_bytes(plan.steps[4].hand_off), 512);
  steps[0].hand_off_bytes = 0;
  plan = planned_with(512);
  EXPECT_EQ(plan.steps[0].hand_off.bytes, 0);
  EXPECT_EQ(total_bytes(plan.steps[3].hand_off), 512);
}

TEST_F(ForeignSteps, first_and_last_and_left_out) {
  std::vector<ChainStep> steps = links(3);
  steps[0] = foreign(steps[0]);
  EXPECT_EQ(planned(steps).steps[1].overlap.wait, Wait::none);
  steps = links(3);
  steps[2] = foreign(steps[2]);
  EXPECT_EQ(made(steps, {.hand_off_bytes = 64}).kernels(), 3) << "nothing is behind it to hand off";
  steps = steps_around();
  foreign_of(steps[1]).nodes = 0;
  const ChainPlan plan = planned(steps);
  EXPECT_FALSE(plan.steps[1].launched);
  EXPECT_EQ(plan.steps[2].overlap.wait, Wait::weights_first) << "there is nothing in between";
}

TEST_F(ForeignSteps, misuse_is_refused) {
  const auto refuse = [&](auto change, ErrorCode code, const char* mention) {
    std::vector<ChainStep> steps = steps_around();
    change(steps);
    refused_plan(steps, code, mention);
  };
  const ErrorCode argument = ErrorCode::invalid_argument, aliasing = ErrorCode::aliasing;
  refuse([](auto& s) { foreign_of(s[1]) = {.nodes = 0}; }, argument,
         "step 1 (attention): nodes = 0 and ForeignStep::enqueue is empty");
  refuse([](auto& s) { foreign_of(s[1]).nodes = -1; }, argument, "nodes = -1");
  refuse([](auto& s) { foreign_of(s[1]).programmatic_edges = 1; }, argument, "programmatic_edges = 1");
  refuse([](auto& s) { s[1].overlap = Overlap{}; }, argument, "has no overlap");
  refuse([](auto& s) { s[1].prefetch_bytes = 1; }, argument,
         "has no overlap, hand_off_bytes and prefetch_bytes");
  refuse([](auto& s) { s[1].hand_off_bytes = 1; }, argument, "hand_off_bytes of the step before it");
  refuse(
      [](auto& s) {
        s[2].overlap = Overlap{Wait::first, Trigger::never};
      },
      argument, "step 2 (link2): the step before it is a foreign one that is not overlapped");
  refuse([](auto& s) { foreign_of(s[1]).overlapped = true; }, aliasing,
         "step 2 (link2): its weights may be read before step 1 (attention) has ended");
  refuse(
      [](auto& s) {
        foreign_of(s[1]).overlapped = true;
        foreign_of(s[1]).writes = {{}, {product(s[3]).args.b, 16}};
      },
      aliasing, "step 3 (link3): B (");
}

}  // namespace
}  // namespace sluice
