// SPDX-License-Identifier: Apache-2.0
// First calls and races while other threads capture, in each capture mode, with streams that wait for the
// legacy stream and others. No call may fail or end a capture. To see them fail: fill RaceMemory by
// DeviceBuffer::upload(), or remove RelaxedCapture from Module::load() or find_order().
#include <gtest/gtest.h>

#include <thread>

#include <sluice/run/ops/packed.h>

#include "packed_launch_fixture.h"
#include "tests/packed_problems.h"

namespace sluice {
namespace {

constexpr CUstreamCaptureMode kModes[] = {CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                          CU_STREAM_CAPTURE_MODE_GLOBAL};

class RacesAndCaptures : public PackedLaunchTest {
 protected:
  RacesAndCaptures() { driver.machine.memory_bytes = i64{2} << 30; }

  const DriverApi& api() const { return *device().impl().api; }

  /// Runs `work` in another thread while a new stream of this thread captures. Returns the result of ending
  /// the capture.
  template <class Work>
  CUresult capture_beside(CUstreamCaptureMode mode, unsigned flags, const Work& work) {
    const ContextScope scope(*device().impl().primary);
    CUstream stream = nullptr;
    EXPECT_EQ(api().cuStreamCreate(&stream, flags), CUDA_SUCCESS);
    EXPECT_EQ(api().cuStreamBeginCapture(stream, mode), CUDA_SUCCESS);
    std::thread(work).join();
    CUgraph graph = nullptr;
    const CUresult ended = api().cuStreamEndCapture(stream, &graph);
    if (graph != nullptr) api().cuGraphDestroy(graph);
    api().cuStreamDestroy(stream);
    return ended;
  }
  template <class Work>
  void survives(const Work& work) {
    for (const CUstreamCaptureMode mode : kModes)
      for (const unsigned flags : {unsigned{CU_STREAM_DEFAULT}, unsigned{CU_STREAM_NON_BLOCKING}})
        EXPECT_EQ(capture_beside(mode, flags, work), CUDA_SUCCESS) << "mode " << mode << ", flags " << flags;
  }
  template <class R>
  static void fine(const R& result) {
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  }

  const StreamHandle own_ = *StreamHandle::create(device());
};

TEST_F(RacesAndCaptures, a_race_ends_nobodys_capture) {
  survives([&] { fine(gemm::race(*open_fake_device({.jobs = 2}), {.m = 64, .n = 512, .k = 1024}, 3)); });
  survives([&] { fine(gemm::race(*open_fake_device({.jobs = 2}), {.m = 16, .n = 512, .k = 1024}, 3)); });
}

TEST_F(RacesAndCaptures, a_first_call_ends_nobodys_capture) {
  // Kernels of each kind, also one that numbers clusters by GPC and one that is lent a workspace, which is
  // allocated and zeroed.
  for (const Problem& problem :
       {Problem{.m = 64, .n = 512, .k = 1024}, Problem{.m = 8192, .n = 8192, .k = 8192},
        Problem{.m = 128, .n = 256, .k = 16384}}) {
    const gemm::Args args = args_for(problem.m < 8192 ? problem : Problem{.m = 8, .n = 8, .k = 8});
    const Plan plan = *gemm::plan(problem, device().info());
    survives([&] {
      const Device fresh = *open_fake_device({.jobs = 2});
      if (problem.m < 8192)
        fine(gemm::run(fresh, problem, args, own_.get()));
      else
        fine(gemm::prepare(fresh, plan));  // its operands take 128 MB each
    });
  }
  const PackedProblem packed{.m = 16, .n = 512, .k = 1024};
  const gemm::Args args = args_of(packed);
  survives([&] { fine(gemm::run(*open_fake_device({.jobs = 2}), packed, args, own_.get())); });
}

/// Tests the fake driver's own rules, so that the tests above can fail.
TEST_F(RacesAndCaptures, the_fake_ends_captures_as_cuda_does) {
  const DeviceBuffer buffer = *DeviceBuffer::allocate(device(), 256);
  const int value = 1;
  const auto legacy = [&] { EXPECT_FALSE(buffer.upload(&value, sizeof value).ok()); };
  const auto unseen = [&] { fine(buffer.upload(&value, sizeof value)); };
  const ContextScope scope(*device().impl().primary);
  const auto allocates = [&](bool allowed) {
    return [&, allowed] {
      const ContextScope in_thread(*device().impl().primary);
      CUdeviceptr memory = 0;
      EXPECT_EQ(api().cuMemAlloc(&memory, 256) == CUDA_SUCCESS, allowed);
      if (allowed) api().cuMemFree(memory);
    };
  };
  for (const CUstreamCaptureMode mode : kModes)
    EXPECT_EQ(capture_beside(mode, CU_STREAM_DEFAULT, legacy), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(capture_beside(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_NON_BLOCKING, unseen),
            CUDA_SUCCESS);
  EXPECT_EQ(capture_beside(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_NON_BLOCKING, allocates(false)),
            CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  for (const CUstreamCaptureMode mode : {kModes[0], kModes[1]})
    EXPECT_EQ(capture_beside(mode, CU_STREAM_NON_BLOCKING, allocates(true)), CUDA_SUCCESS);
}

}  // namespace
}  // namespace sluice
