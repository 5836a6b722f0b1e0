// SPDX-License-Identifier: Apache-2.0
// Products split along k, many times on the same workspaces. After every launch the counters must be zero and
// D must have the bits of the first run. The data are real, which would show another order of summation.
// Launches run alone, in 16 streams, in a graph with changing inputs, and next to a kernel that occupies half
// of the SMs. A captured launch is one kernel node, or two with Combine::separate.
//   SLUICE_SPLIT_LAUNCHES   launches of the first test (default 1,000,000); the others do a tenth of it
#include <dlfcn.h>

#include <algorithm>
#include <chrono>

#include <sluice/check/verify.h>
#include <sluice/run/device/device_impl.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/launch.h>
#include <sluice/run/driver/memory.h>

#include "gpu.h"
#include "lab/random/dice.h"
#include "spin_kernel.h"

namespace sluice::testing {
namespace {

constexpr i64 kLaunches = 1'000'000;
constexpr int kStreams = 16;
constexpr i64 kWatched = 2000;  // launches between two waits, so that a hang is noticed soon
constexpr i64 kBytes = kWorkspaceCounterBytes + (i64{8} << 20);

struct CompareParams {
  const u32* got;
  const u32* wanted;
  i64 words;
  const u32* counters;
  u32* wrong;
};
constexpr const char* kCompareUnit = R"(
struct CompareParams { const unsigned* got; const unsigned* wanted; long long words; const unsigned* counters; unsigned* wrong; };
extern "C" __global__ void __launch_bounds__(256) sluice_entry(const __grid_constant__ CompareParams p) {
  const long long first = blockIdx.x * 256ll + threadIdx.x, step = gridDim.x * 256ll;
  for (long long i = first; i < p.words; i += step)
    if (p.got[i] != p.wanted[i]) atomicAdd(p.wrong, 1u);
  for (long long i = first; i < 16384; i += step)
    if (p.counters[i] != 0) atomicAdd(p.wrong + 1, 1u);
}
)";

struct CopyParams {
  const u32* from;
  u32* to;
  i64 words;
};
constexpr const char* kCopyUnit = R"(
struct CopyParams { const unsigned* from; unsigned* to; long long words; };
extern "C" __global__ void __launch_bounds__(256) sluice_entry(const __grid_constant__ CopyParams p) {
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < p.words; i += gridDim.x * 256ll) p.to[i] = p.from[i];
}
)";

/// A product with its data and the bits of its first result.
struct Product {
  gemm::Kernel kernel;
  ProblemData data;
  DeviceBuffer golden;
  i64 d_bytes;
};

class split : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    compare_ = load(kCompareUnit, 0);
    wrong_ = make(8);
    ASSERT_TRUE(ok(wrong_.fill(0, nullptr)));
    ASSERT_TRUE(ok(synchronize(device())));
  }

  std::shared_ptr<const Module> load(const char* unit, int smem) {
    auto module = device().impl().load_unit(unit, smem);
    EXPECT_TRUE(ok(module));
    return module ? *module : nullptr;
  }
  DeviceBuffer make(i64 bytes) {
    auto buffer = DeviceBuffer::allocate(device(), bytes);
    EXPECT_TRUE(ok(buffer));
    return buffer ? *std::move(buffer) : DeviceBuffer{};
  }
  Workspace make_workspace() {
    auto workspace = Workspace::create(device(), kBytes);
    EXPECT_TRUE(ok(workspace));
    return *workspace;
  }

  struct Shape {
    i64 m, n, k;
    DType input;
    PlanOverrides overrides;
  };
  /// Returns small products with every kind of split and schedule. A million of them take seconds.
  static std::vector<Shape> shapes() {
    const auto with = [](Schedule schedule, int m, int n, ClusterShape cluster) {
      return PlanOverrides{.schedule = schedule, .tile_m = m, .tile_n = n, .cluster = cluster};
    };
    const auto split_by = [&](PlanOverrides o, int splits) { return o.splits = splits, o; };
    const auto separately = [](PlanOverrides o) { return o.combine = Combine::separate, o; };
    const Schedule ping = Schedule::ping_pong, coop = Schedule::cooperative;
    return {{16, 256, 2048, DType::bf16, split_by(with(ping, 64, 64, {1, 1}), 4)},
            {100, 200, 1000, DType::bf16, split_by(with(ping, 64, 64, {1, 1}), 3)},
            {128, 256, 4096, DType::e4m3, split_by(with(coop, 128, 128, {1, 1}), 16)},
            {256, 128, 2048, DType::bf16, split_by(with(coop, 128, 64, {2, 1}), 8)},
            {300, 136, 1536, DType::bf16, split_by(with(ping, 64, 64, {1, 1}), 5)},
            {300, 136, 1536, DType::e4m3, split_by(with(coop, 128, 64, {1, 1}), 7)},
            {64, 512, 1024, DType::bf16, with(ping, 64, 64, {1, 1, 4})},
            {32, 256, 4096, DType::bf16, split_by(with(ping, 64, 64, {1, 1, 2}), 5)},
            {128, 128, 8192, DType::bf16, split_by(with(coop, 128, 128, {1, 1, 4}), 8)},
            {64, 64, 700, DType::bf16, split_by(with(ping, 64, 64, {1, 1}), 11)},
            {256, 256, 4096, DType::bf16, separately(split_by(with(coop, 128, 128, {2, 1}), 16))},
            {300, 136, 1536, DType::e4m3, separately(split_by(with(ping, 64, 64, {1, 1}), 5))},
            {100, 264, 2048, DType::bf16, separately(split_by(with(ping, 64, 64, {1, 1, 2}), 2))}};
  }

  std::vector<Product> products(const Workspace& workspace) {
    std::vector<Product> all;
    const auto verifier = Verifier::create(device());
    EXPECT_TRUE(ok(verifier));
    for (const Shape& s : shapes()) {
      Problem p{.m = s.m, .n = s.n, .k = s.k, .a = {.type = s.input}, .b = {.type = s.input}};
      p.a.ld = p.b.ld = round_up(static_cast<int>(s.k), 16);
      const auto plan = gemm::plan(p, device().info(), s.overrides);
      EXPECT_TRUE(ok(plan));
      auto kernel = gemm::prepare(device(), *plan);
      EXPECT_TRUE(ok(kernel));
      auto data = verifier->make_data(p, real_data(p, 3), nullptr);
      EXPECT_TRUE(ok(data));
      const i64 bytes = s.m * s.n * 2;
      all.push_back({*kernel, *data, make(bytes), bytes});
      EXPECT_TRUE(ok(gemm::launch(*kernel, args(all.back(), workspace), nullptr)));
      const auto found = verifier->check(*data, {.judge = Judge::bounded}, nullptr);
      EXPECT_TRUE(ok(found));
      EXPECT_TRUE(is_right(*found)) << short_name(plan->config) << "\n" << describe(*found);
      std::vector<u8> bits(static_cast<size_t>(bytes));
      EXPECT_TRUE(ok(copy_out(all.back().data.args().d, bits)));
      EXPECT_TRUE(ok(all.back().golden.upload(bits.data(), bytes)));
    }
    return all;
  }
  Result<void> copy_out(const void* from, std::vector<u8>& to) {
    const ContextScope scope(*device().impl().primary);
    if (Result<void> entered = scope.entered(); !entered) return entered;
    const CUresult code =
        device().impl().api->cuMemcpyDtoH(to.data(), reinterpret_cast<CUdeviceptr>(from), to.size());
    if (code == CUDA_SUCCESS) return {};
    return Error{ErrorCode::driver, "cuMemcpyDtoH"};
  }

  static gemm::Args args(const Product& product, const Workspace& workspace) {
    gemm::Args args = product.data.args();
    args.workspace = workspace.view();
    return args;
  }
  Result<void> enqueue(const Module& module, u32 blocks, u32 threads, int smem, const void* params,
                       Stream stream) {
    const ContextScope scope(*device().impl().primary);
    if (Result<void> entered = scope.entered(); !entered) return entered;
    return launch_kernel(*device().impl().api, module.function(),
                         {.grid_x = blocks, .block_x = threads, .smem_bytes = static_cast<u32>(smem)}, params,
                         stream);
  }
  /// Counts the words of D that differ from `wanted`, and the counters that are not zero.
  Result<void> compare(const Product& product, const void* d, const Workspace& workspace, Stream stream) {
    const CompareParams params{static_cast<const u32*>(d), static_cast<const u32*>(product.golden.data()),
                               product.d_bytes / 4, static_cast<const u32*>(workspace.data()),
                               static_cast<u32*>(wrong_.data())};
    return enqueue(*compare_, 16, 256, 0, &params, stream);
  }
  void expect_nothing_wrong(const char* when) {
    ASSERT_TRUE(ok(synchronize(device()))) << when;
    u32 wrong[2] = {1, 1};
    ASSERT_TRUE(ok(wrong_.download(wrong, sizeof wrong)));
    EXPECT_EQ(wrong[0], 0u) << "words of D differ from the first run, " << when;
    EXPECT_EQ(wrong[1], 0u) << "counters are not zero, " << when;
  }

  std::shared_ptr<const Module> compare_;
  DeviceBuffer wrong_;
};

TEST_F(split, the_judge_sees_one_wrong_bit_and_one_counter) {
  const Workspace workspace = make_workspace();
  const std::vector<Product> all = products(workspace);
  std::vector<u8> bits(static_cast<size_t>(all[0].d_bytes));
  ASSERT_TRUE(ok(all[0].golden.download(bits.data(), all[0].d_bytes)));
  bits[17] ^= 1;
  ASSERT_TRUE(ok(all[0].golden.upload(bits.data(), all[0].d_bytes)));
  ASSERT_TRUE(ok(compare(all[0], all[0].data.args().d, workspace, nullptr)));
  ASSERT_TRUE(ok(synchronize(device())));
  u32 wrong[2] = {};
  ASSERT_TRUE(ok(wrong_.download(wrong, sizeof wrong)));
  EXPECT_EQ(wrong[0], 1u);
  EXPECT_EQ(wrong[1], 0u);
}

TEST_F(split, a_million_launches_on_one_workspace) {
  const Workspace workspace = make_workspace();
  const std::vector<Product> all = products(workspace);
  const auto stream = StreamHandle::create(device());
  ASSERT_TRUE(ok(stream));
  const i64 count = setting("SLUICE_SPLIT_LAUNCHES", kLaunches);
  Dice dice(1);
  for (i64 i = 0; i < count; ++i) {
    const Product& product = all[static_cast<size_t>(dice.below(static_cast<int>(all.size())))];
    ASSERT_TRUE(gemm::launch(product.kernel, args(product, workspace), stream->get()).ok());
    ASSERT_TRUE(compare(product, product.data.args().d, workspace, stream->get()).ok());
    if (i % kWatched == 0) {
      ASSERT_TRUE(ok(stream->synchronize()));
    }
  }
  expect_nothing_wrong("after a million launches");
  record("cases", count);
  EXPECT_TRUE(ok(workspace.verify()));
}

TEST_F(split, sixteen_streams_with_a_workspace_each) {
  std::vector<Workspace> workspaces;
  std::vector<StreamHandle> streams;
  std::vector<std::vector<Product>> mine;
  for (int i = 0; i < kStreams; ++i) {
    workspaces.push_back(make_workspace());
    auto stream = StreamHandle::create(device());
    ASSERT_TRUE(ok(stream));
    streams.push_back(*std::move(stream));
    mine.push_back(products(workspaces.back()));
  }
  const i64 count = setting("SLUICE_SPLIT_LAUNCHES", kLaunches) / 10;
  Dice dice(2);
  for (i64 i = 0; i < count; ++i) {
    const size_t at = static_cast<size_t>(i % kStreams);
    const Product& product = mine[at][static_cast<size_t>(dice.below(static_cast<int>(mine[at].size())))];
    ASSERT_TRUE(gemm::launch(product.kernel, args(product, workspaces[at]), streams[at].get()).ok());
    ASSERT_TRUE(compare(product, product.data.args().d, workspaces[at], streams[at].get()).ok());
    if (i % kWatched == 0) {
      ASSERT_TRUE(ok(synchronize(device())));
    }
  }
  expect_nothing_wrong("in 16 streams");
  record("cases", count);
}

TEST_F(split, replays_with_changed_inputs) {
  const Workspace workspace = make_workspace(), of_graph = make_workspace();
  const auto stream = StreamHandle::create(device());
  ASSERT_TRUE(ok(stream));
  const auto copy = load(kCopyUnit, 0);
  std::vector<Product> all = products(workspace);
  struct Replayed {
    Graph graph;
    DeviceBuffer inputs[2], results[2];
  };
  std::vector<Replayed> replayed;
  for (Product& product : all) {
    const Problem p = with_strides(product.kernel.plan().problem);
    const i64 bytes = p.m * p.a.ld * bytes_of(p.a.type);
    const auto captured = Graph::capture(device(), stream->get(), [&] {
      return gemm::launch(product.kernel, args(product, of_graph), stream->get());
    });
    ASSERT_TRUE(ok(captured));
    replayed.push_back({std::move(const_cast<Graph&>(*captured)),
                        {make(bytes), make(bytes)},
                        {make(product.d_bytes), make(product.d_bytes)}});
    // Each product has two inputs: its own data, and the same with some signs in the first row flipped.
    std::vector<u8> a(static_cast<size_t>(bytes)), d(static_cast<size_t>(product.d_bytes));
    for (int which = 0; which < 2; ++which) {
      ASSERT_TRUE(ok(copy_out(product.data.args().a, a)));
      if (which == 1)
        for (size_t i = 1; i < static_cast<size_t>(p.k * bytes_of(p.a.type)); i += 2) a[i] ^= 0x80;
      ASSERT_TRUE(ok(replayed.back().inputs[which].upload(a.data(), bytes)));
    }
  }
  const auto set_input = [&](size_t at, int which) {
    const Problem p = with_strides(all[at].kernel.plan().problem);
    const CopyParams params{static_cast<const u32*>(replayed[at].inputs[which].data()),
                            static_cast<u32*>(const_cast<void*>(all[at].data.args().a)),
                            p.m * p.a.ld * bytes_of(p.a.type) / 4};
    return enqueue(*copy, 16, 256, 0, &params, stream->get());
  };
  for (size_t at = 0; at < all.size(); ++at)
    for (const int which : {1, 0}) {
      ASSERT_TRUE(ok(set_input(at, which)));
      ASSERT_TRUE(ok(replayed[at].graph.launch(stream->get())));
      ASSERT_TRUE(ok(stream->synchronize()));
      std::vector<u8> d(static_cast<size_t>(all[at].d_bytes));
      ASSERT_TRUE(ok(copy_out(all[at].data.args().d, d)));
      ASSERT_TRUE(ok(replayed[at].results[which].upload(d.data(), all[at].d_bytes)));
    }
  const i64 count = setting("SLUICE_SPLIT_LAUNCHES", kLaunches) / 10;
  Dice dice(3);
  for (i64 i = 0; i < count; ++i) {
    const size_t at = static_cast<size_t>(dice.below(static_cast<int>(all.size())));
    const int which = dice.below(2);
    ASSERT_TRUE(set_input(at, which).ok());
    ASSERT_TRUE(replayed[at].graph.launch(stream->get()).ok());
    const CompareParams params{static_cast<const u32*>(all[at].data.args().d),
                               static_cast<const u32*>(replayed[at].results[which].data()),
                               all[at].d_bytes / 4, static_cast<const u32*>(of_graph.data()),
                               static_cast<u32*>(wrong_.data())};
    ASSERT_TRUE(enqueue(*compare_, 16, 256, 0, &params, stream->get()).ok());
    // Launches outside of the graph, on the graph's workspace and in its stream, must not disturb it.
    if (dice.one_in(8)) {
      ASSERT_TRUE(gemm::launch(all[0].kernel, args(all[0], of_graph), stream->get()).ok());
    }
    if (i % kWatched == 0) {
      ASSERT_TRUE(ok(stream->synchronize()));
    }
  }
  expect_nothing_wrong("in replays");
  record("cases", count);
}

TEST_F(split, finishes_beside_a_kernel_that_holds_half_of_the_sms) {
  constexpr int kSmem = 200 * 1024;
  const Workspace workspace = make_workspace();
  const std::vector<Product> all = products(workspace);
  const auto stream = StreamHandle::create(device()), other = StreamHandle::create(device());
  ASSERT_TRUE(ok(stream));
  ASSERT_TRUE(ok(other));
  const auto spin = load(kSpinUnit, kSmem);
  const i64 count = setting("SLUICE_SPLIT_LAUNCHES", kLaunches) / 10;
  Dice dice(4);
  // Each spinning kernel ends by itself. The next one is queued before that, so half of the SMs are occupied
  // until some milliseconds after the last launch.
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kSpin{3};
  Clock::time_point held_until = Clock::now();
  for (i64 i = 0; i < count; ++i) {
    while (held_until < Clock::now() + kSpin) {
      const SpinParams params{std::chrono::nanoseconds(kSpin).count()};
      ASSERT_TRUE(ok(
          enqueue(*spin, static_cast<u32>(device().info().sm_count / 2), 256, kSmem, &params, other->get())));
      held_until = std::max(held_until, Clock::now()) + kSpin;
    }
    const Product& product = all[static_cast<size_t>(dice.below(static_cast<int>(all.size())))];
    ASSERT_TRUE(gemm::launch(product.kernel, args(product, workspace), stream->get()).ok());
    ASSERT_TRUE(compare(product, product.data.args().d, workspace, stream->get()).ok());
    if (i % 1000 == 999) {
      ASSERT_TRUE(ok(stream->synchronize()));
    }
  }
  expect_nothing_wrong("beside a busy kernel");
  record("cases", count);
}

TEST_F(split, a_captured_launch_is_one_kernel_node_or_two_if_the_plan_says_so) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  ASSERT_NE(driver, nullptr);
  const auto begin =
      reinterpret_cast<CUresult (*)(CUstream, CUstreamCaptureMode)>(dlsym(driver, "cuStreamBeginCapture_v2"));
  const auto end = reinterpret_cast<CUresult (*)(CUstream, CUgraph*)>(dlsym(driver, "cuStreamEndCapture"));
  const auto nodes_of =
      reinterpret_cast<CUresult (*)(CUgraph, CUgraphNode*, size_t*)>(dlsym(driver, "cuGraphGetNodes"));
  const auto type_of =
      reinterpret_cast<CUresult (*)(CUgraphNode, CUgraphNodeType*)>(dlsym(driver, "cuGraphNodeGetType"));
  ASSERT_TRUE(begin && end && nodes_of && type_of);
  const Workspace workspace = make_workspace();
  const auto stream = StreamHandle::create(device());
  ASSERT_TRUE(ok(stream));
  const ContextScope scope(*device().impl().primary);
  for (const Product& product : products(workspace)) {
    CUgraph graph = nullptr;
    ASSERT_EQ(begin(stream->get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
    const Result<void> launched = gemm::launch(product.kernel, args(product, workspace), stream->get());
    ASSERT_EQ(end(stream->get(), &graph), CUDA_SUCCESS);
    ASSERT_TRUE(ok(launched));
    size_t count = 0;
    ASSERT_EQ(nodes_of(graph, nullptr, &count), CUDA_SUCCESS);
    const KernelConfig& config = product.kernel.plan().config;
    ASSERT_EQ(count, config.combine == Combine::separate ? 2u : 1u) << short_name(config);
    std::vector<CUgraphNode> nodes(count);
    ASSERT_EQ(nodes_of(graph, nodes.data(), &count), CUDA_SUCCESS);
    for (CUgraphNode node : nodes) {
      CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
      ASSERT_EQ(type_of(node, &type), CUDA_SUCCESS);
      EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_KERNEL);
    }
    device().impl().api->cuGraphDestroy(graph);
  }
}

}  // namespace
}  // namespace sluice::testing
