// SPDX-License-Identifier: Apache-2.0
// Graphs of split products and convolutions, captured in one stream and replayed concurrently in several,
// each with the workspace that it is lent. A hundred thousand replays of each must have the bits of replays
// one after the other. A replay adds to D, so a wrong one stays visible. With one shared workspace, a planted
// bug, the graphs must fail. Also tests what the driver promises for a graph's memory. It is returned when
// the graph is destroyed and its last launch is done, and it can be allocated during a capture.
//   SLUICE_GRAPH_REPLAYS    replays of each of the first two tests (default 100,000)
#include <dlfcn.h>

#include <array>
#include <chrono>
#include <thread>

#include <sluice/check/verify.h>
#include <sluice/run/device/device_impl.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/launch.h>
#include <sluice/run/driver/memory.h>
#include <sluice/spec/conv_problem.h>

#include "gpu.h"
#include "spin_kernel.h"
#include "watchdog.h"

namespace sluice::testing {
namespace {

constexpr std::size_t kGraphs = 4;
constexpr int kRound = 250;  // replays of each graph between checks of D
constexpr i64 kReplays = 100'000;

/// The problem of each graph, and the number of slices of each tile. A launch has at most 32 CTAs, so that
/// four run at the same time.
struct Workload {
  std::vector<Problem> problems;
  int splits;
};
Workload matrices() {
  Problem p{.m = 128, .n = 128, .k = 4096};
  p.d.type = DType::fp32;
  p.epilogue.update = Update::add;
  return {std::vector<Problem>(kGraphs, p), 8};
}
/// fprop and dgrad cannot add to D, so D is passed as their residual instead.
Workload convolutions() {
  Conv conv{.images = 2,
            .channels = 64,
            .filters = 64,
            .size = {14, 14, 1},
            .filter = {3, 3, 1},
            .padding = {1, 1, 0},
            .padding_after = {1, 1, 0}};
  const Epilogue residual{.residual = true, .c_type = DType::fp32}, added{.update = Update::add};
  Workload all{{}, 3};
  for (const ConvOp op : {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad, ConvOp::wgrad}) {
    conv.op = op;
    all.problems.push_back(
        product_of_conv(conv, DType::bf16, DType::fp32, op == ConvOp::wgrad ? added : residual));
  }
  return all;
}

/// A kernel with its operands, the D to which its graph adds, and the expected D after kRound replays.
struct Product {
  gemm::Kernel kernel;
  ProblemData data;
  DeviceBuffer d;
  std::vector<u32> wanted;
};

class split_graphs : public GpuTest {
 protected:
  /// Makes one product per problem, each with data of its own. `combine`: how slices are combined.
  void make_products(Combine combine, const Workload& workload = matrices()) {
    const auto verifier = Verifier::create(device());
    auto stream = StreamHandle::create(device());
    ASSERT_TRUE(ok(verifier) && ok(stream));
    stream_.emplace(*std::move(stream));
    products_.clear();
    for (const Problem& problem : workload.problems) {
      const auto plan = gemm::plan(problem, device().info(),
                                   {.schedule = Schedule::ping_pong,
                                    .tile_m = 64,
                                    .tile_n = 64,
                                    .cluster = ClusterShape{1, 1},
                                    .splits = workload.splits,
                                    .combine = combine});
      ASSERT_TRUE(ok(plan));
      auto kernel = gemm::prepare(device(), *plan);
      auto data = verifier->make_data(problem, real_data(problem, products_.size() + 1), stream_->get());
      ASSERT_TRUE(ok(kernel) && ok(data));
      auto d = DeviceBuffer::allocate(device(), data->region(kRegionD).span_bytes);
      ASSERT_TRUE(ok(d));
      products_.push_back({*std::move(kernel), *std::move(data), *std::move(d), {}});
    }
  }
  gemm::Args args(std::size_t i, const WorkspaceView& workspace) const {
    gemm::Args args = products_[i].data.args();
    args.d = products_[i].d.data();
    if (products_[i].data.problem().epilogue.residual) args.c = args.d, args.beta = 1.0f;
    args.workspace = workspace;
    return args;
  }
  Result<WorkspaceView> lent(Stream stream, std::size_t i) const {
    return device().impl().lender.lend(device(), stream, products_[i].kernel.plan().workspace_bytes);
  }
  Result<void> launch(std::size_t i, const WorkspaceView& workspace, Stream stream) const {
    return gemm::launch(products_[i].kernel, args(i, workspace), stream);
  }
  /// Captures one graph per product, all in the same stream. `given`: the workspace that they share; without
  /// it, each graph is lent its own.
  std::vector<Graph> captured(const std::optional<WorkspaceView>& given) {
    std::vector<Graph> graphs;
    for (std::size_t i = 0; i < kGraphs; ++i) {
      auto graph = Graph::capture(device(), stream_->get(), [&]() -> Result<void> {
        const Result<WorkspaceView> workspace =
            given ? Result<WorkspaceView>(*given) : lent(stream_->get(), i);
        if (!workspace) return workspace.error();
        return launch(i, *workspace, stream_->get());
      });
      EXPECT_TRUE(ok(graph));
      if (graph) graphs.push_back(*std::move(graph));
    }
    return graphs;
  }
  void clear_d() {
    for (const Product& product : products_) ASSERT_TRUE(ok(product.d.fill(0, nullptr)));
    ASSERT_TRUE(ok(synchronize(device())));
  }
  std::vector<u32> bits_of_d(std::size_t i) const {
    const DeviceBuffer& d = products_[i].d;
    std::vector<u32> bits(static_cast<std::size_t>(d.bytes() / 4));
    EXPECT_TRUE(ok(d.download(bits.data(), d.bytes())));
    return bits;
  }
  /// Replays each graph kRound times, taking turns. Each graph has a stream of its own; with one stream, they
  /// run one after the other.
  void replay(const std::vector<Graph>& graphs, const std::vector<StreamHandle>& streams) {
    const Watchdog watched(60, "replays of split products");
    clear_d();
    for (int i = 0; i < kRound; ++i)
      for (std::size_t g = 0; g < graphs.size(); ++g)
        ASSERT_TRUE(graphs[g].launch(streams[g % streams.size()].get()).ok());
    ASSERT_TRUE(ok(synchronize(device())));
  }
  std::vector<StreamHandle> new_streams(std::size_t count) {
    std::vector<StreamHandle> streams;
    for (std::size_t i = 0; i < count; ++i) streams.push_back(*StreamHandle::create(device()));
    return streams;
  }
  int wrong_products() const {
    int wrong = 0;
    for (std::size_t i = 0; i < products_.size(); ++i) wrong += bits_of_d(i) != products_[i].wanted;
    return wrong;
  }
  void find_wanted(const std::vector<Graph>& graphs) {
    replay(graphs, new_streams(1));
    for (std::size_t i = 0; i < products_.size(); ++i) products_[i].wanted = bits_of_d(i);
  }
  void expect_the_bits_of_one_after_the_other(const Workload& workload) {
    const i64 rounds = setting("SLUICE_GRAPH_REPLAYS", kReplays) / (2 * kRound * static_cast<i64>(kGraphs));
    for (const Combine combine : {Combine::last_arriver, Combine::separate}) {
      make_products(combine, workload);
      const std::vector<Graph> graphs = captured({});
      ASSERT_EQ(graphs.size(), kGraphs);
      find_wanted(graphs);
      const std::vector<StreamHandle> streams = new_streams(kGraphs);
      for (i64 round = 0; round < rounds; ++round) {
        replay(graphs, streams);
        ASSERT_EQ(wrong_products(), 0) << name_of(combine) << ", round " << round;
      }
      for (const Workspace& workspace : device().impl().lender.all_lent())
        ASSERT_TRUE(ok(workspace.verify()));
      const i64 replays = rounds * kRound * static_cast<i64>(kGraphs);
      std::printf("%s: %lld replays of %zu graphs at once\n", name_of(combine),
                  static_cast<long long>(replays), kGraphs);
    }
  }
  void expect_that_sharing_a_workspace_is_seen(const Workload& workload) {
    for (const Combine combine : {Combine::last_arriver, Combine::separate}) {
      make_products(combine, workload);
      find_wanted(captured({}));
      auto shared = Workspace::create(device());
      ASSERT_TRUE(ok(shared));
      const std::vector<Graph> graphs = captured(shared->view());
      replay(graphs, new_streams(1));
      ASSERT_EQ(wrong_products(), 0) << "one after the other they may share it";
      const std::vector<StreamHandle> streams = new_streams(kGraphs);
      int rounds = 0, wrong = 0;
      while (wrong == 0 && rounds < 40) {
        replay(graphs, streams);
        wrong = wrong_products();
        ++rounds;
      }
      std::printf("%s: planted sharing was seen in round %d: %d of %zu products wrong, the workspace is %s\n",
                  name_of(combine), rounds, wrong, kGraphs, shared->verify() ? "clean" : "dirty");
      EXPECT_GT(wrong, 0) << name_of(combine);
    }
  }
  WorkspaceLender::Holdings held() const { return device().impl().lender.holdings(); }
  /// Polls until the lent memory is back to `lent` bytes, because the driver returns it on a thread of its
  /// own.
  bool comes_back_to(i64 lent) const {
    for (int i = 0; i < 200 && held().lent != lent; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return held().lent == lent;
  }

  std::optional<StreamHandle> stream_;
  std::vector<Product> products_;
};

TEST_F(split_graphs, replayed_at_once_have_the_bits_of_one_after_the_other) {
  expect_the_bits_of_one_after_the_other(matrices());
}
TEST_F(split_graphs, of_convolutions_replayed_at_once_have_the_bits_of_one_after_the_other) {
  expect_the_bits_of_one_after_the_other(convolutions());
}

TEST_F(split_graphs, on_one_workspace_are_seen_to_go_wrong) {
  expect_that_sharing_a_workspace_is_seen(matrices());
}
TEST_F(split_graphs, of_convolutions_on_one_workspace_are_seen_to_go_wrong) {
  expect_that_sharing_a_workspace_is_seen(convolutions());
}

TEST_F(split_graphs, give_their_memory_back_when_they_are_gone_and_done) {
  make_products(Combine::last_arriver);
  const auto spin = device().impl().load_unit(kSpinUnit, 0);
  ASSERT_TRUE(ok(spin));
  const i64 before = held().lent;
  std::vector<Graph> graphs = captured({});
  EXPECT_EQ(held().lent, before + static_cast<i64>(kGraphs));
  const i64 bytes = held().bytes;
  {
    const ContextScope scope(*device().impl().primary);
    const SpinParams params{.nanoseconds = 300'000'000};
    const LaunchShape one{.block_x = 32};
    ASSERT_TRUE(ok(launch_kernel(*device().impl().api, (*spin)->function(), one, &params, stream_->get())));
  }
  ASSERT_TRUE(ok(graphs.back().launch(stream_->get())));
  graphs.pop_back();  // destroys a graph whose launch still waits for the spinning kernel
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(held().lent, before + static_cast<i64>(kGraphs)) << "it came back with its launch on its way";
  ASSERT_TRUE(ok(synchronize(device())));
  EXPECT_TRUE(comes_back_to(before + static_cast<i64>(kGraphs) - 1)) << held().lent;
  graphs.clear();
  EXPECT_TRUE(comes_back_to(before)) << held().lent;
  graphs = captured({});
  EXPECT_EQ(held().bytes, bytes) << "the next graphs have the memory of those";
  graphs.clear();
  EXPECT_TRUE(comes_back_to(before));
}

/// Captures in the global mode that PyTorch uses: no thread may make a call that this mode forbids.
TEST_F(split_graphs, are_lent_memory_that_is_allocated_during_a_global_capture) {
  make_products(Combine::last_arriver);
  const DriverApi& api = *device().impl().api;
  const ContextScope scope(*device().impl().primary);
  WorkspaceLender own;
  ASSERT_EQ(api.cuStreamBeginCapture(stream_->get(), CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  const Result<WorkspaceView> mine =
      own.lend(device(), stream_->get(), products_[0].kernel.plan().workspace_bytes);
  Result<void> launched = mine ? launch(0, *mine, stream_->get()) : mine.error();
  Result<void> elsewhere;
  std::thread([&] {  // at the same time, another thread's stream is lent a workspace
    const std::vector<StreamHandle> other = new_streams(1);
    const Result<WorkspaceView> view = own.lend(device(), other[0].get(), kWorkspaceLimit);
    if (!view) elsewhere = view.error();
  })
      .join();
  CUgraph graph = nullptr;
  const CUresult ended = api.cuStreamEndCapture(stream_->get(), &graph);
  EXPECT_TRUE(ok(mine));
  EXPECT_TRUE(ok(launched));
  EXPECT_TRUE(ok(elsewhere));
  EXPECT_EQ(ended, CUDA_SUCCESS) << "the capture was lost";
  if (graph != nullptr) api.cuGraphDestroy(graph);
  for (int i = 0; i < 200 && own.holdings().lent != 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(own.holdings().lent, 1) << "a graph that was never instantiated gives back too";
}

/// A capture with two branches, which run concurrently, so each needs its own workspace.
TEST_F(split_graphs, have_one_for_each_branch) {
  make_products(Combine::last_arriver);
  find_wanted(captured({}));
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  const auto wait_event =
      reinterpret_cast<CUresult (*)(CUstream, CUevent, unsigned)>(dlsym(driver, "cuStreamWaitEvent"));
  ASSERT_NE(wait_event, nullptr);
  const auto fork = Event::create(device()), join = Event::create(device());
  ASSERT_TRUE(ok(fork) && ok(join));
  const std::vector<StreamHandle> branch = new_streams(1);
  std::array<const void*, 2> used{};
  const auto graph = Graph::capture(device(), stream_->get(), [&]() -> Result<void> {
    if (Result<void> done = fork->record(stream_->get()); !done) return done;
    wait_event(branch[0].get(), fork->get(), 0);
    for (std::size_t i = 0; i < 2; ++i) {
      const Stream stream = i == 0 ? stream_->get() : branch[0].get();
      const Result<WorkspaceView> workspace = lent(stream, i);
      if (!workspace) return workspace.error();
      used[i] = workspace->data;
      if (Result<void> done = launch(i, *workspace, stream); !done) return done;
    }
    if (Result<void> done = join->record(branch[0].get()); !done) return done;
    wait_event(stream_->get(), join->get(), 0);
    return {};
  });
  ASSERT_TRUE(ok(graph));
  EXPECT_NE(used[0], used[1]);
  clear_d();
  for (int i = 0; i < kRound; ++i) ASSERT_TRUE(ok(graph->launch(stream_->get())));
  ASSERT_TRUE(ok(synchronize(device())));
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(bits_of_d(i), products_[i].wanted) << i;
}

/// Documents what the driver does. Its manual only promises that the graph must be kept.
TEST_F(split_graphs, that_executables_were_updated_from) {
  make_products(Combine::last_arriver);
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  const auto update = reinterpret_cast<CUresult (*)(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo*)>(
      dlsym(driver, "cuGraphExecUpdate_v2"));
  ASSERT_NE(update, nullptr);
  const DriverApi& api = *device().impl().api;
  const ContextScope scope(*device().impl().primary);
  std::array<CUgraph, 2> graphs{};
  std::array<const void*, 2> used{};
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(api.cuStreamBeginCapture(stream_->get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
    const Result<WorkspaceView> workspace = lent(stream_->get(), i);
    const Result<void> launched = workspace ? launch(i, *workspace, stream_->get()) : workspace.error();
    ASSERT_EQ(api.cuStreamEndCapture(stream_->get(), &graphs[i]), CUDA_SUCCESS);
    ASSERT_TRUE(ok(launched));
    used[i] = workspace->data;
  }
  const i64 before = held().lent;
  CUgraphExec executable = nullptr;
  ASSERT_EQ(api.cuGraphInstantiate(&executable, graphs[0], 0), CUDA_SUCCESS);
  CUgraphExecUpdateResultInfo info{};
  ASSERT_EQ(update(executable, graphs[1], &info), CUDA_SUCCESS);
  for (CUgraph graph : graphs) api.cuGraphDestroy(graph);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  for (std::size_t i = 0; i < 2; ++i) {
    bool is_held = false;
    for (const Workspace& workspace : device().impl().lender.all_lent())
      is_held = is_held || workspace.data() == used[i];
    std::printf(
        "an executable of one graph, updated from another, and both destroyed: the workspace of the %s is "
        "%s\n",
        i == 0 ? "first" : "other", is_held ? "held" : "given back");
  }
  api.cuGraphExecDestroy(executable);
  EXPECT_TRUE(comes_back_to(before - 2));
}

}  // namespace
}  // namespace sluice::testing
