// SPDX-License-Identifier: Apache-2.0
// Chains that are enqueued and captured on the fake driver: order, attributes, ranges, edges, and refusals.
// To see it fail: leave `sums` out of `.programmatic = programmatic() + sums`; the graph of a split product
// is then refused. Or remove the comparison in chain/chain.cc.
#include "allocation_counter.h"
#include "chain_fixture.h"
#include "tests/packed_problems.h"

namespace sluice {
namespace {

class ChainLaunches : public ChainTest {
 protected:
  StreamHandle stream() {
    Result<StreamHandle> made = StreamHandle::create(device());
    EXPECT_TRUE(made.ok());
    return *std::move(made);
  }
  /// Returns a product whose slices are added up by a second kernel.
  ChainStep separate_step() {
    Problem p{.m = 128, .n = 128, .k = 32768};
    ProductStep step{
        .problem = p, .overrides = {.splits = 16, .combine = Combine::separate}, .args = args_for(p)};
    return {.work = step, .name = "split"};
  }
};

TEST_F(ChainLaunches, enqueues_in_order_with_the_attribute_from_the_second_on) {
  std::vector<ChainStep> steps = links(4);
  const Chain chain =
      made(steps, {.overlap = ChainOverlap::wait_first, .hand_off_bytes = 4096, .prefetch_bytes = 512});
  EXPECT_EQ(chain.kernels(), 4);
  EXPECT_EQ(chain.programmatic_edges(), 3);
  EXPECT_EQ(chain.workspace_bytes(), 0);
  ASSERT_TRUE(chain.enqueue(nullptr).ok());
  ASSERT_EQ(driver.launches(), 4);
  for (int i = 0; i < 4; ++i) {
    const LaunchRecord& record = driver.launch(i);
    EXPECT_EQ(record.dependent, i > 0) << i;
    EXPECT_EQ(record.params.d, product(steps[static_cast<size_t>(i)]).args.d) << i;
    EXPECT_EQ(total_bytes(record.params.hand_off), i < 3 ? 4096 : 0) << i;
    EXPECT_EQ(total_bytes(record.params.prefetch), 0) << i << ": the step in front brings some";
  }
  const Chain own = made(steps, {.overlap = ChainOverlap::wait_first, .prefetch_bytes = 512});
  ASSERT_TRUE(own.enqueue(nullptr).ok());
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(total_bytes(driver.launch(4 + i).params.prefetch), i > 0 ? 512 : 0) << i;
  EXPECT_EQ(driver.alive().pushed, 0);
}

TEST_F(ChainLaunches, off_is_off) {
  const Chain chain = made(links(3), {.overlap = ChainOverlap::off});
  ASSERT_TRUE(chain.enqueue(nullptr).ok());
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(driver.launch(i).dependent) << i;
  EXPECT_EQ(chain.programmatic_edges(), 0);
}

TEST_F(ChainLaunches, allocates_nothing) {
  const Chain chain = made(links(3));
  ASSERT_TRUE(chain.enqueue(nullptr).ok());
  const long before = allocations_of_this_thread();
  const bool ok = chain.enqueue(nullptr).ok();
  EXPECT_EQ(allocations_of_this_thread(), before);
  EXPECT_TRUE(ok);
}

TEST_F(ChainLaunches, one_workspace_for_all_and_refused_before_the_first_launch) {
  std::vector<ChainStep> steps = links(1);
  steps.push_back(separate_step());
  const Chain chain = made(steps);
  ASSERT_GT(chain.workspace_bytes(), 0);
  refused(chain.enqueue(nullptr), ErrorCode::workspace, "the chain needs");
  const WorkspaceView small{driver.memory(256), 256};
  refused(chain.enqueue(nullptr, small), ErrorCode::workspace, "got 256");
  const WorkspaceView enough{driver.memory(chain.workspace_bytes()), chain.workspace_bytes()};
  ASSERT_TRUE(chain.enqueue(nullptr, enough).ok());
  EXPECT_EQ(driver.launches(), 3) << "the split product takes two";
  EXPECT_EQ(driver.launch(1).params.counters, enough.data);
}

TEST_F(ChainLaunches, a_graph_has_the_edges_of_the_chain) {
  const StreamHandle s = stream();
  const Chain chain = made(links(5));
  const Result<ChainGraph> graph = ChainGraph::capture(chain, s.get());
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_EQ(graph->kernels(), 5);
  EXPECT_EQ(graph->programmatic_edges(), 4);
  EXPECT_TRUE(driver.launch(0).captured);
  ASSERT_TRUE(graph->replay(s.get()).ok());
  EXPECT_EQ(driver.launches(), 5) << "a replay launches the graph";
}

TEST_F(ChainLaunches, a_graph_counts_the_second_kernel_of_a_split) {
  const StreamHandle s = stream();
  std::vector<ChainStep> steps = links(2);
  steps.push_back(separate_step());
  const Chain chain = made(steps);
  const WorkspaceView workspace{driver.memory(chain.workspace_bytes()), chain.workspace_bytes()};
  const Result<ChainGraph> graph = ChainGraph::capture(chain, s.get(), workspace);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_EQ(graph->kernels(), 4);
  EXPECT_EQ(graph->programmatic_edges(), 2) << "to the second link, and to the kernel that adds up";
  steps[2].overlap = Overlap{Wait::first, Trigger::never};
  refused_plan(steps, ErrorCode::invalid_argument, "step 2 (split): its parts are added up");
}

TEST_F(ChainLaunches, lost_edges_are_an_error) {
  const StreamHandle s = stream();
  const Chain chain = made(links(3)), off = made(links(3), {.overlap = ChainOverlap::off});
  driver.make_edges_full();
  const Alive before = driver.alive();
  const Result<ChainGraph> graph = ChainGraph::capture(chain, s.get());
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().code, ErrorCode::internal);
  EXPECT_NE(graph.error().message.find("0 programmatic edges, the chain 3 launches and 2"), std::string::npos)
      << graph.error().message;
  EXPECT_EQ(driver.alive(), before) << "nothing stays behind";
  EXPECT_TRUE(ChainGraph::capture(off, s.get()).ok()) << "it wants none";
}

TEST_F(ChainLaunches, any_failing_call_of_a_capture_is_an_error_and_leaves_nothing) {
  const StreamHandle s = stream();
  const Chain chain = made(links(2));
  const Alive before = driver.alive();
  for (const char* call : {"cuStreamBeginCapture", "cuLaunchKernelEx", "cuStreamEndCapture",
                           "cuGraphGetNodes", "cuGraphGetEdges", "cuGraphInstantiate", "cuGraphUpload"}) {
    driver.fail_function(call, CUDA_ERROR_UNKNOWN);
    const Result<ChainGraph> graph = ChainGraph::capture(chain, s.get());
    ASSERT_FALSE(graph.ok()) << call;
    EXPECT_NE(graph.error().message.find(call), std::string::npos) << graph.error().message;
    EXPECT_EQ(driver.alive(), before) << call;
  }
  driver.fail_nothing();
  EXPECT_TRUE(ChainGraph::capture(chain, s.get()).ok()) << "the stream is out of capture again";
}

TEST_F(ChainLaunches, a_launch_that_fails_is_the_error_of_enqueue) {
  std::vector<ChainStep> steps = links(2);
  product(steps[1]).args.d = driver.memory(kRows * kWidth, 1);
  const Result<void> done = made(steps).enqueue(nullptr);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, ErrorCode::wrong_device);
}

TEST_F(ChainLaunches, packed_weights_overlap_too) {
  PackedProblem p{.m = 4, .n = 256, .k = 256};
  const gemm::Args args{
      .a = driver.memory(4 * 256 * 2), .b = driver.memory(blob_bytes(p)), .d = driver.memory(4 * 256 * 2)};
  std::vector<ChainStep> steps = links(1);
  steps.push_back({.work = ProductStep{.problem = p, .args = args}, .name = "packed"});
  const std::vector<ChainStep> more = links(1);
  steps.insert(steps.end(), more.begin(), more.end());
  const Chain chain =
      made(steps, {.overlap = ChainOverlap::wait_first, .hand_off_bytes = 4096, .prefetch_bytes = 512});
  ASSERT_TRUE(chain.enqueue(nullptr).ok());
  ASSERT_EQ(driver.launches(), 3);
  EXPECT_TRUE(driver.launch(1).dependent);
  EXPECT_EQ(driver.launch(0).params.hand_off.data, args.b);
  EXPECT_EQ(driver.launch(1).narrow.hand_off.data, product(steps[2]).args.b);
  const Chain own = made(steps, {.overlap = ChainOverlap::wait_first, .prefetch_bytes = 512});
  ASSERT_TRUE(own.enqueue(nullptr).ok());
  EXPECT_EQ(driver.launch(4).narrow.prefetch.bytes, 512);
  EXPECT_EQ(chain.programmatic_edges(), 2);
  std::get<ProductStep>(steps[1].work).overrides.overlap = {Wait::first, Trigger::never};
  refused_plan(steps, ErrorCode::invalid_argument, "step 1 (packed): PlanOverrides::overlap");
}

/// Invalid arguments are refused by prepare(), not when half of the chain has run.
TEST_F(ChainLaunches, arguments_that_no_launch_takes_are_refused_before_the_first_one) {
  const auto refused = [&](const std::vector<ChainStep>& steps, ErrorCode code, const std::string& mention) {
    const Result<Chain> chain = Chain::prepare(device(), steps);
    ASSERT_FALSE(chain.ok()) << "expected a refusal that mentions " << mention;
    EXPECT_EQ(chain.error().code, code) << chain.error().message;
    EXPECT_NE(chain.error().message.find(mention), std::string::npos) << chain.error().message;
    EXPECT_EQ(driver.launches(), 0);
  };
  const std::vector<ChainStep> good = links(2);
  std::vector<ChainStep> bad = good;
  product(bad[1]).args.d = nullptr;
  refused(bad, ErrorCode::invalid_pointer, "step 1 (link1): D is null");
  bad = good;
  product(bad[1]).args.d = const_cast<void*>(product(bad[1]).args.a);
  refused(bad, ErrorCode::aliasing, "step 1 (link1): D");

  const PackedProblem p{.m = 4, .n = 256, .k = 256};
  const gemm::Args packed{.a = driver.memory(4 * 256 * 2), .d = driver.memory(4 * 256 * 2)};
  bad = good;
  bad.push_back({.work = ProductStep{.problem = p, .args = packed}, .name = "packed"});
  refused(bad, ErrorCode::invalid_pointer, "step 2 (packed): ");

  const void* rows = driver.memory(kRows * kWidth * 2);
  NormStep norm{
      .shape = {kRows, kWidth},
      .args = {
          .input = rows, .gamma = driver.memory(kWidth * 2), .output = driver.memory(kRows * kWidth * 2)}};
  norm.args.epsilon = -1.0f;
  bad = good;
  bad.push_back({.work = norm, .name = "norm"});
  refused(bad, ErrorCode::invalid_argument, "step 2 (norm): epsilon");
  QuantizerStep quantizer{.granularity = Granularity::row,
                          .shape = {kRows, kWidth},
                          .args = {.input = rows, .output = driver.memory(kRows * kWidth)}};
  bad = good;
  bad.push_back({.work = quantizer, .name = "quantise"});
  refused(bad, ErrorCode::invalid_pointer, "step 2 (quantise): scales");
}

/// Each edit would let a launch start too early or read past the end of a list.
TEST_F(ChainLaunches, a_plan_that_was_changed_by_hand_keeps_what_was_promised_or_is_refused) {
  std::vector<ChainStep> steps = links(3);
  void* both = driver.memory(kWidth * kWidth);  // the weights of one step and D of another
  const ChainPlan good = planned(steps, {.overlap = ChainOverlap::weights_first});
  EXPECT_TRUE(Chain::prepare(device(), good).ok());
  const auto refused = [&](ErrorCode code, const std::string& mention, auto&& change) {
    ChainPlan plan = good;
    change(plan);
    const Result<Chain> chain = Chain::prepare(device(), plan);
    ASSERT_FALSE(chain.ok()) << "expected a refusal that mentions " << mention;
    EXPECT_EQ(chain.error().code, code) << chain.error().message;
    EXPECT_NE(chain.error().message.find(mention), std::string::npos) << chain.error().message;
  };
  refused(ErrorCode::aliasing, "step 1 (link1): B", [&](ChainPlan& plan) {
    product(plan.steps[0].step).args.d = both;
    product(plan.steps[1].step).args.b = both;
  });
  const ErrorCode invalid = ErrorCode::invalid_argument;
  refused(invalid, "it is the first launch of the chain, and waits",
          [](ChainPlan& plan) { std::swap(plan.steps[0], plan.steps[1]); });
  refused(invalid, "it is the last launch of the chain, and triggers",
          [](ChainPlan& plan) { std::swap(plan.steps[1], plan.steps[2]); });
  refused(invalid, "its plan = 9 is none", [](ChainPlan& plan) { plan.steps[1].plan = 9; });
  refused(invalid, "its plan = -1 is none", [](ChainPlan& plan) { plan.steps[1].plan = -1; });
  refused(invalid, "step 1 (link1): its plan is of another problem",
          [](ChainPlan& plan) { product(plan.steps[1].step).problem.n = 128; });
  refused(invalid, "its overlap is not that of its kernel's plan",
          [](ChainPlan& plan) { plan.steps[1].overlap.wait = Wait::none; });
  refused(invalid, "it has something to launch", [](ChainPlan& plan) { plan.steps[1].launched = false; });
  refused(invalid, "the step before it is a foreign one", [](ChainPlan& plan) {
    plan.steps[1] = {.step = {.work = ForeignStep{.enqueue = [](Stream) { return Result<void>(); }}}};
  });

  std::vector<ChainStep> split = {separate_step()};
  std::get<ProductStep>(split[0].work).overrides.combine = Combine::last_arriver;
  ChainPlan plan = planned(split);
  ASSERT_GT(plan.workspace_bytes, 0);
  plan.workspace_bytes -= 1;
  const Result<Chain> chain = Chain::prepare(device(), plan);
  ASSERT_FALSE(chain.ok());
  EXPECT_NE(chain.error().message.find("its plans need"), std::string::npos) << chain.error().message;
}

TEST_F(ChainLaunches, counts_the_launches_of_very_many_tokens) {
  PackedProblem p{.m = 1'200'000, .n = 64, .k = 128};
  const PackedOverrides narrow{.token_blocks = 1};
  ProductStep step{.problem = p, .overrides = narrow};
  step.args = {.a = driver.memory(p.m * p.k * 2),
               .b = driver.memory(blob_bytes(p)),
               .d = driver.memory(p.m * p.n * 2)};
  std::vector<ChainStep> steps = links(1);
  steps.push_back({.work = step, .name = "many"});
  const Chain chain = made(steps);
  ASSERT_TRUE(chain.enqueue(nullptr).ok());
  EXPECT_EQ(driver.launches(), 1 + 3);
  EXPECT_EQ(chain.kernels(), driver.launches());
  EXPECT_EQ(chain.programmatic_edges(), 3);
}

}  // namespace
}  // namespace sluice
