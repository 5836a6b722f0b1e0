// SPDX-License-Identifier: Apache-2.0
// Races on the GPU. All plans of a race must agree, a damaged result must be found, and a capture in another
// thread must survive races and first calls. To see them fail: multiply Tolerance by 0, leave out
// keep_result(), or fill RaceMemory by DeviceBuffer::upload().
#include <thread>

#include <sluice/conv.h>
#include <sluice/run/driver/capture_mode.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/memory.h>
#include <sluice/run/ops/gemm.h>

#include "gpu.h"
#include "tests/packed_problems.h"

namespace sluice::testing {
namespace {

class races : public GpuTest {
 protected:
  /// Launches the plans that a race would time, and names those whose results differ from the first.
  template <class Op>
  void all_agree(const typename Op::Problem& problem, int most) {
    const auto ranked = Op::candidates(problem, device().info());
    ASSERT_TRUE(ok(ranked));
    const auto plans = ops::racing<Op>(*ranked, most);
    std::vector<typename Op::Handle> kernels;
    for (const auto& kernel : ops::prepare<Op>(device(), plans)) {
      ASSERT_TRUE(ok(kernel));
      kernels.push_back(*kernel);
    }
    const auto stream = StreamHandle::create(device());
    ASSERT_TRUE(ok(stream));
    const auto operands = Op::operands_of(kernels[0].plan().problem);
    ASSERT_TRUE(ok(operands));
    auto memory = ops::RaceMemory::sized(device(), *operands, Op::sums_share(problem));
    ASSERT_TRUE(ok(memory));
    ASSERT_TRUE(ok(memory->allocate(device(), *operands, *stream)));
    const auto workspace = Workspace::create(device());
    ASSERT_TRUE(ok(workspace));
    std::vector<ops::Racer> racers;
    for (const auto& kernel : kernels)
      racers.push_back({.call = [&, kernel](int copy, Stream on) {
        auto args = Op::args_at(kernel.plan().problem, memory->at(copy));
        if constexpr (requires { Op::with_workspace(args, workspace->view()); })
          args = Op::with_workspace(args, workspace->view());
        return ops::launch<Op>(kernel.impl(), args, on);
      }});
    const auto agrees = ops::agreeing(device(), racers, *memory, *stream);
    ASSERT_TRUE(ok(agrees));
    for (size_t i = 0; i < agrees->size(); ++i)
      EXPECT_TRUE(agrees->at(i)) << to_string(problem) << ": " << Op::short_name(kernels[i].plan().config);
    // Changes one element of the last racer's D, as if it had not been written. This must be found.
    if (racers.size() < 2) return;
    const ops::ResultPair pair = memory->results();
    racers.resize(2);
    racers[1].call = [&, wrong = racers[1].call](int copy, Stream on) -> Result<void> {
      SLUICE_TRY(wrong(copy, on));
      const i64 last = span_bytes(pair.memory) - bytes_of(pair.type);
      return copy_on_device(device(), static_cast<u8*>(const_cast<void*>(pair.second)) + last, huge_->data(),
                            bytes_of(pair.type), on);
    };
    const auto spoilt = ops::agreeing(device(), racers, *memory, *stream);
    ASSERT_TRUE(ok(spoilt));
    EXPECT_EQ(*spoilt, (std::vector<bool>{true, false})) << to_string(problem);
    record("cases", static_cast<i64>(agrees->size()));
  }

  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    huge_ = DeviceBuffer::allocate(device(), 4);
    ASSERT_TRUE(ok(huge_));
    const u32 huge = 0x7b7b7b7b;  // 6e4 in fp16, 352 in e4m3, 1e36 in other types
    ASSERT_TRUE(ok(huge_->upload(&huge, sizeof huge)));
  }
  Result<DeviceBuffer> huge_ = Error{ErrorCode::internal, "not made"};
};

TEST_F(races, plans_of_dense_products_agree) {
  constexpr int kPlans = 8;
  for (const i64 m : {1, 16, 64, 300, 2048})
    for (const DType type : {DType::bf16, DType::fp16, DType::e4m3}) {
      Problem p{.m = m, .n = 1536, .k = 4096};
      p.a.type = p.b.type = type;
      all_agree<ops::Gemm>(p, kPlans);
      p.accumulate = Accumulate::promoted;
      p.epilogue = {.scale_a = ScaleMode::vector,
                    .scale_b = ScaleMode::vector,
                    .bias = Bias::column,
                    .activation = Activation::gelu};
      if (is_fp8(type)) all_agree<ops::Gemm>(p, kPlans);
    }
  all_agree<ops::Gemm>({.m = 128, .n = 256, .k = 65536}, kPlans);  // split along k
}

TEST_F(races, plans_of_packed_products_agree) {
  for (const i64 m : {1, 16, 128, 1024}) {
    all_agree<ops::Gemm>(PackedProblem{.m = m, .n = 4096, .k = 4096}, 8);
    PackedProblem bytes{.m = m, .n = 4096, .k = 4096};
    bytes.weights.type = WeightType::int8;
    all_agree<ops::Gemm>(bytes, 8);
  }
}

TEST_F(races, plans_of_convolutions_agree) {
  for (const ConvOp op : {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad}) {
    const Conv conv{.op = op,
                    .images = 16,
                    .channels = 64,
                    .filters = 128,
                    .size = {28, 28, 1},
                    .filter = {3, 3, 1},
                    .padding = {1, 1, 0},
                    .padding_after = {1, 1, 0}};
    const auto problem = conv::problem(conv, DType::bf16, DType::bf16, {});
    ASSERT_TRUE(ok(problem));
    all_agree<ops::Gemm>(*problem, 6);
  }
}

/// Repeats tests/unit/race_capture_test.cc with CUDA's own rules.
TEST_F(races, and_first_calls_end_nobodys_capture) {
  const DriverApi& api = *device().impl().api;
  const ContextScope scope(*device().impl().primary);
  const auto own = StreamHandle::create(device());
  const auto target = DeviceBuffer::allocate(device(), 1024);
  const auto operands = DeviceBuffer::allocate(device(), i64{64} << 20);
  ASSERT_TRUE(ok(own));
  ASSERT_TRUE(ok(target));
  ASSERT_TRUE(ok(operands));
  i64 shape = 0;  // each first call and each race needs a problem that was not used before
  for (const CUstreamCaptureMode mode :
       {CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_GLOBAL})
    for (const unsigned flags : {unsigned{CU_STREAM_DEFAULT}, unsigned{CU_STREAM_NON_BLOCKING}})
      for (const bool race : {false, true}) {
        const Problem problem{.m = 64, .n = 512 + 8 * ++shape, .k = 1024};
        CUstream stream = nullptr;
        ASSERT_EQ(api.cuStreamCreate(&stream, flags), CUDA_SUCCESS);
        ASSERT_EQ(api.cuStreamBeginCapture(stream, mode), CUDA_SUCCESS);
        EXPECT_TRUE(ok(target->fill(1, stream)));
        std::thread([&] {
          const auto fresh = Device::open(0, {.cache_dir = device().options().cache_dir});
          ASSERT_TRUE(ok(fresh));
          u8* const base = static_cast<u8*>(operands->data());
          const gemm::Args args{.a = base, .b = base + (16 << 20), .d = base + (32 << 20)};
          if (race)
            EXPECT_TRUE(ok(gemm::race(*fresh, problem, 3)));
          else
            EXPECT_TRUE(ok(gemm::run(*fresh, problem, args, own->get())));
        }).join();
        EXPECT_TRUE(ok(target->fill(2, stream)));
        CUgraph graph = nullptr;
        EXPECT_EQ(api.cuStreamEndCapture(stream, &graph), CUDA_SUCCESS)
            << (race ? "a race" : "a first call") << ", mode " << mode << ", flags " << flags;
        if (graph != nullptr) api.cuGraphDestroy(graph);
        EXPECT_EQ(api.cuStreamDestroy(stream), CUDA_SUCCESS);
        EXPECT_TRUE(ok(own->synchronize()));
      }
}

}  // namespace
}  // namespace sluice::testing
