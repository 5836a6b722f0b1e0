// SPDX-License-Identifier: Apache-2.0
// Workspaces lent to graphs: one per stream of a graph, kept while the graph or an executable exists, then
// reused. To see it fail: leave the capture's id out of branch_of() (workspace_lender.cc), so that only the
// stream's handle identifies it; or return a workspace at once.
#include <set>
#include <thread>
#include <vector>

#include <sluice/run/device/device_impl.h>
#include <sluice/run/device/workspace_lender.h>
#include <sluice/spec/params.h>

#include "launch_fixture.h"

namespace sluice {
namespace {

/// Returns a problem with few tiles and a large k, which the planner splits.
Problem long_problem() {
  return {.m = 128, .n = 128, .k = 65536};
}

class GraphWorkspace : public LaunchTest {
 protected:
  GraphWorkspace() : args_(args_for(long_problem())) {
    EXPECT_TRUE(
        // Loads the kernel and lends the stream a workspace.
        gemm::run(device(), long_problem(), args_, nullptr).ok());
  }

  Result<void> run(Stream stream, const WorkspaceView& workspace = {}) {
    gemm::Args args = args_;
    args.workspace = workspace;
    return gemm::run(device(), long_problem(), args, stream);
  }
  StreamHandle new_stream() { return *StreamHandle::create(device()); }
  Graph captured(Stream stream, const WorkspaceView& workspace = {}) {
    Result<Graph> graph = Graph::capture(device(), stream, [&] { return run(stream, workspace); });
    EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
    return *std::move(graph);
  }
  /// Returns the address of the counters in the latest launch.
  const void* latest() const { return driver.launch(driver.launches() - 1).params.counters; }
  WorkspaceLender& lender() { return device().impl().lender; }

  const gemm::Args args_;
};

TEST_F(GraphWorkspace, is_another_one_for_each_graph_whatever_stream_captured_it) {
  const StreamHandle stream = new_stream();
  std::set<const void*> used{latest()};
  std::vector<Graph> graphs;
  for (int i = 0; i < 20; ++i) {  // more graphs than memory was prepared for
    graphs.push_back(captured(stream.get()));
    EXPECT_TRUE(used.insert(latest()).second) << "graph " << i << " shares its workspace";
  }
  ASSERT_TRUE(run(stream.get()).ok());
  EXPECT_TRUE(used.insert(latest()).second) << "the stream's own is none of a graph";
  EXPECT_EQ(lender().holdings().lent, 22);

  // Proves that the check above detects sharing: two graphs with one workspace from the caller do share it.
  const Result<Workspace> shared = Workspace::create(device());
  graphs.push_back(captured(stream.get(), shared->view()));
  EXPECT_TRUE(used.insert(latest()).second);
  graphs.push_back(captured(stream.get(), shared->view()));
  EXPECT_FALSE(used.insert(latest()).second);
}

TEST_F(GraphWorkspace, is_one_for_each_branch_and_the_same_along_a_branch) {
  const StreamHandle origin = new_stream(), branch = new_stream();
  std::vector<const void*> used;
  const Result<Graph> graph = Graph::capture(device(), origin.get(), [&]() -> Result<void> {
    driver.fork_capture(origin.get(), branch.get());
    for (const Stream stream : {origin.get(), branch.get(), origin.get(), branch.get()}) {
      if (Result<void> done = run(stream); !done) return done;
      used.push_back(latest());
    }
    return {};
  });
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_NE(used[0], used[1]);
  EXPECT_EQ(used[0], used[2]);
  EXPECT_EQ(used[1], used[3]);
}

TEST_F(GraphWorkspace, is_used_again_when_the_graph_is_gone_and_not_before) {
  const StreamHandle stream = new_stream();
  const void* first = nullptr;
  const int before = driver.alive().allocations;
  {
    // The graph that was captured is destroyed, the executable stays.
    const Graph graph = captured(stream.get());
    first = latest();
    const Graph other = captured(stream.get());
    EXPECT_NE(latest(), first);
    EXPECT_EQ(driver.alive().user_objects, 2);
  }
  EXPECT_EQ(driver.alive().user_objects, 0);
  EXPECT_EQ(lender().holdings().lent, 1) << "the stream's own";
  for (int i = 0; i < 100; ++i) captured(stream.get());
  EXPECT_EQ(driver.alive().allocations, before + 2);
  ASSERT_TRUE(run(stream.get()).ok());
  EXPECT_EQ(driver.alive().allocations, before + 2) << "a stream takes what came back, too";
}

TEST_F(GraphWorkspace, that_came_back_is_zeroed_again) {
  const StreamHandle stream = new_stream();
  void* first = nullptr;
  {
    const Graph graph = captured(stream.get());
    first = const_cast<void*>(latest());
  }
  static_cast<u32*>(first)[3] = 7;  // as if two executables had run at the same time
  const Graph next = captured(stream.get());
  ASSERT_EQ(latest(), first);
  EXPECT_EQ(static_cast<u32*>(first)[3], 0u);
}

/// The driver gives a new stream the handle of a destroyed one.
TEST_F(GraphWorkspace, is_told_apart_by_the_capture_where_streams_have_one_handle_after_another) {
  std::vector<Graph> graphs;
  std::set<const void*> used{latest()};
  std::set<Stream> handles;
  for (int i = 0; i < 8; ++i) {
    const StreamHandle stream = new_stream();
    handles.insert(stream.get());
    graphs.push_back(captured(stream.get()));
    EXPECT_TRUE(used.insert(latest()).second) << i;
  }
  EXPECT_LT(handles.size(), 8u) << "the fake driver's handles come again, else nothing was tested";
}

TEST_F(GraphWorkspace, is_larger_for_a_later_launch_that_needs_more) {
  WorkspaceLender own;
  const StreamHandle stream = new_stream();
  WorkspaceView small, large, again;
  const Result<Graph> graph = Graph::capture(device(), stream.get(), [&]() -> Result<void> {
    small = *own.lend(device(), stream.get(), kWorkspaceCounterBytes);
    large = *own.lend(device(), stream.get(), kWorkspaceLimit);
    again = *own.lend(device(), stream.get(), kWorkspaceCounterBytes);
    return {};
  });
  ASSERT_TRUE(graph.ok());
  EXPECT_NE(small.data, large.data);
  EXPECT_GE(large.bytes, kWorkspaceLimit);
  EXPECT_TRUE(again.data == small.data || again.data == large.data);
  EXPECT_EQ(own.holdings().lent, 2) << "a launch was captured with the first";
}

/// A graph may outlive its lender. The driver's thread, which gives the memory back, must not free anything.
TEST_F(GraphWorkspace, outlives_its_lender_and_is_freed_after) {
  const StreamHandle stream = new_stream();
  const int before = driver.alive().allocations;
  {
    std::optional<WorkspaceLender> own(std::in_place);
    const Result<Graph> graph = Graph::capture(device(), stream.get(), [&]() -> Result<void> {
      const Result<WorkspaceView> lent = own->lend(device(), stream.get(), 256);
      return lent ? Result<void>() : lent.error();
    });
    ASSERT_TRUE(graph.ok()) << graph.error().message;
    ASSERT_TRUE(own->lend(device(), stream.get(), 256).ok());
    EXPECT_EQ(driver.alive().allocations, before + 2);
    own.reset();
    EXPECT_EQ(driver.alive().allocations, before + 1) << "the graph's";
  }
  const WorkspaceLender next;
  EXPECT_EQ(driver.alive().allocations, before);
}

TEST_F(GraphWorkspace, is_given_back_whatever_call_fails) {
  const StreamHandle stream = new_stream();
  captured(stream.get());  // leaves one workspace idle
  for (const char* name : {"cuStreamGetCaptureInfo", "cuUserObjectCreate", "cuGraphRetainUserObject",
                           "cuStreamCreate", "cuMemsetD8Async", "cuStreamSynchronize", "cuLaunchKernelEx"}) {
    const Alive before = driver.alive();
    const WorkspaceLender::Holdings held = lender().holdings();
    driver.fail_function(name, CUDA_ERROR_UNKNOWN);
    const Result<Graph> graph = Graph::capture(device(), stream.get(), [&] { return run(stream.get()); });
    driver.fail_nothing();
    ASSERT_FALSE(graph.ok()) << name;
    EXPECT_EQ(graph.error().code, ErrorCode::driver) << name;
    EXPECT_EQ(driver.alive(), before) << name;
    EXPECT_EQ(lender().holdings().lent, held.lent) << name;
    EXPECT_EQ(lender().holdings().bytes, held.bytes) << name;
  }
}

/// Allocating during a capture changes the thread's capture mode, which must be restored.
TEST_F(GraphWorkspace, leaves_the_threads_capture_mode_as_it_was) {
  const StreamHandle stream = new_stream();
  const auto mode = [&] {
    const DriverApi& api = *device().impl().api;
    CUstreamCaptureMode now = CU_STREAM_CAPTURE_MODE_GLOBAL, ignored = now;
    api.cuThreadExchangeStreamCaptureMode(&now);
    ignored = now;
    api.cuThreadExchangeStreamCaptureMode(&ignored);
    return now;
  };
  captured(stream.get());
  EXPECT_EQ(mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
  driver.fail_function("cuThreadExchangeStreamCaptureMode", CUDA_ERROR_UNKNOWN);
  EXPECT_FALSE(Graph::capture(device(), stream.get(), [&] { return run(stream.get()); }).ok())
      << "returned memory cannot be zeroed, and none allocated";
  driver.fail_nothing();
  EXPECT_EQ(mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST_F(GraphWorkspace, of_a_lost_capture_is_refused) {
  driver.lose_captures();
  const StreamHandle stream = new_stream();
  const Result<Graph> graph = Graph::capture(device(), stream.get(), [&] { return run(stream.get()); });
  ASSERT_FALSE(graph.ok());
  EXPECT_NE(graph.error().message.find("was lost by an earlier call"), std::string::npos)
      << graph.error().message;
}

TEST_F(GraphWorkspace, is_each_threads_own_where_threads_capture_at_once) {
  constexpr int kThreads = 4, kGraphs = 50;
  std::vector<std::vector<Graph>> graphs(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const StreamHandle stream = new_stream();
      for (int i = 0; i < kGraphs; ++i) {
        graphs[static_cast<std::size_t>(t)].push_back(captured(stream.get()));
        if (i % 3 == 2) graphs[static_cast<std::size_t>(t)].pop_back();
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::set<void*> lent;
  for (const Workspace& workspace : lender().all_lent()) EXPECT_TRUE(lent.insert(workspace.data()).second);
  std::size_t alive = 1;
  for (const auto& of_thread : graphs) alive += of_thread.size();
  EXPECT_EQ(lent.size(), alive);
  EXPECT_TRUE(device().impl().lender.holdings().lent == static_cast<i64>(alive));
}

}  // namespace
}  // namespace sluice
