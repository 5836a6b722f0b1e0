// SPDX-License-Identifier: Apache-2.0
// Device memory, streams, events and graphs: they work, report errors, and are freed even if any driver call
// fails. To see it fail: return early in Graph::capture before cuStreamEndCapture.
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

#include <sluice/run/driver/events.h>
#include <sluice/run/driver/memory.h>

#include "bench/contender/peer_scales.h"
#include "fake_driver.h"

namespace sluice {
namespace {

class DriverMemory : public ::testing::Test {
 protected:
  FakeDriver driver;
  Device device = *open_fake_device();
};

TEST_F(DriverMemory, copies_and_fills) {
  const Result<DeviceBuffer> buffer = DeviceBuffer::allocate(device, 8);
  ASSERT_TRUE(buffer.ok());
  ASSERT_TRUE(buffer->fill(7, nullptr).ok());
  const std::array<u8, 2> sent{1, 2};
  ASSERT_TRUE(buffer->upload(sent.data(), 2, 3).ok());
  std::array<u8, 8> got{};
  ASSERT_TRUE(buffer->download(got.data(), 8).ok());
  EXPECT_EQ(got, (std::array<u8, 8>{7, 7, 7, 1, 2, 7, 7, 7}));
  got = {};
  ASSERT_TRUE(buffer->download_async(got.data(), 5, nullptr).ok());
  ASSERT_TRUE(synchronize(device).ok());
  EXPECT_EQ(got, (std::array<u8, 8>{7, 7, 7, 1, 2}));
}

/// The bench copies block scales for cuBLASLt, and copies them again after the operands changed.
TEST_F(DriverMemory, block_scales_are_copied_into_the_peers_layout) {
  Problem problem{.m = 2, .n = 130, .k = 257};  // 2 x 3 scales of A, 2 x 3 of B
  problem.epilogue.scale_a = problem.epilogue.scale_b = ScaleMode::block;
  const Result<DeviceBuffer> a = DeviceBuffer::allocate(device, 6 * sizeof(float));
  const Result<DeviceBuffer> b = DeviceBuffer::allocate(device, 6 * sizeof(float));
  ASSERT_TRUE(a.ok() && b.ok());
  const Result<bench::PeerScales> peer = bench::PeerScales::create(device, problem);
  ASSERT_TRUE(peer.ok());
  for (const float first : {1.0f, 7.0f}) {
    std::vector<float> scales(6);
    std::iota(scales.begin(), scales.end(), first);
    ASSERT_TRUE(a->upload(scales.data(), 6 * sizeof(float)).ok() &&
                b->upload(scales.data(), 6 * sizeof(float)).ok());
    ASSERT_TRUE(peer->copy(problem, {.scale_a = static_cast<const float*>(a->data()),
                                     .scale_b = static_cast<const float*>(b->data())})
                    .ok());
    const auto* of_a = static_cast<const float*>(peer->a());  // the fake's device memory is host memory
    const auto* of_b = static_cast<const float*>(peer->b());
    const float f = first;
    EXPECT_EQ(std::vector<float>(of_a, of_a + 6), (std::vector<float>{f, f + 3, f + 1, f + 4, f + 2, f + 5}));
    EXPECT_EQ(std::vector<float>(of_b, of_b + 8),
              (std::vector<float>{f, f + 1, f + 2, 0, f + 3, f + 4, f + 5, 0}));
  }
}

TEST_F(DriverMemory, refuses_what_lies_outside) {
  const Result<DeviceBuffer> buffer = DeviceBuffer::allocate(device, 8);
  std::array<u8, 16> host{};
  for (const auto& [bytes, offset] :
       {std::pair<i64, i64>{9, 0}, {1, 8}, {-1, 0}, {1, -1}, {i64{1} << 62, 4}}) {
    EXPECT_EQ(buffer->upload(host.data(), bytes, offset).error().code, ErrorCode::invalid_size);
    EXPECT_EQ(buffer->download(host.data(), bytes, offset).error().code, ErrorCode::invalid_size);
  }
  EXPECT_EQ(buffer->download_async(host.data(), 9, nullptr).error().code, ErrorCode::invalid_size);
  EXPECT_EQ(DeviceBuffer::allocate(device, -1).error().code, ErrorCode::invalid_size);
}

TEST_F(DriverMemory, nothing_is_a_legal_buffer) {
  const Result<DeviceBuffer> buffer = DeviceBuffer::allocate(device, 0);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer->data(), nullptr);
  EXPECT_TRUE(buffer->fill(0, nullptr).ok());
  EXPECT_TRUE(buffer->upload(nullptr, 0).ok());
  EXPECT_EQ(driver.alive().allocations, 0);
}

TEST_F(DriverMemory, out_of_memory_is_an_error_with_the_size) {
  const Result<DeviceBuffer> buffer = DeviceBuffer::allocate(device, i64{1} << 40);
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.error().code, ErrorCode::driver);
  EXPECT_NE(buffer.error().message.find("1099511627776 bytes"), std::string::npos) << buffer.error().message;
}

TEST_F(DriverMemory, moves_without_freeing_twice_and_outlives_the_device) {
  {
    DeviceBuffer kept;
    {
      const Device other = *open_fake_device();
      DeviceBuffer buffer = *DeviceBuffer::allocate(other, 8);
      const CUdeviceptr address = buffer.address();
      kept = std::move(buffer);
      EXPECT_EQ(kept.address(), address);
    }
    EXPECT_EQ(driver.alive().contexts, 2) << "the buffer keeps its context";
    EXPECT_TRUE(kept.fill(0, nullptr).ok());
  }
  EXPECT_EQ(driver.alive().allocations, 0);
  EXPECT_EQ(driver.alive().contexts, 1);
}

TEST_F(DriverMemory, calls_work_under_the_context_of_another_device_and_leave_it) {
  driver.make_current(1);
  const Result<DeviceBuffer> buffer = DeviceBuffer::allocate(device, 8);
  ASSERT_TRUE(buffer.ok());
  CUcontext current = nullptr;
  CUdevice ordinal = -1;
  (*load_driver())->cuCtxGetCurrent(&current);
  (*load_driver())->cuCtxGetDevice(&ordinal);
  EXPECT_EQ(ordinal, 1);
  EXPECT_EQ(driver.alive().pushed, 0);
}

/// Times a graph as the bench does.
Result<void> time_a_graph(const Device& device) {
  const Result<StreamHandle> stream = StreamHandle::create(device);
  if (!stream) return stream.error();
  const Result<DeviceBuffer> buffer = DeviceBuffer::allocate(device, 64);
  if (!buffer) return buffer.error();
  const Result<Event> start = Event::create(device), stop = Event::create(device);
  if (!start) return start.error();
  if (!stop) return stop.error();
  const Result<Graph> graph =
      Graph::capture(device, stream->get(), [&] { return buffer->fill(1, stream->get()); });
  if (!graph) return graph.error();
  if (Result<void> done = start->record(stream->get()); !done) return done;
  if (Result<void> done = graph->launch(stream->get()); !done) return done;
  if (Result<void> done = stop->record(stream->get()); !done) return done;
  if (Result<void> done = stop->synchronize(); !done) return done;
  const Result<double> time = stop->microseconds_since(*start);
  if (!time) return time.error();
  EXPECT_DOUBLE_EQ(*time, 250.0);
  return stream->synchronize();
}

TEST_F(DriverMemory, times_a_graph) {
  const Alive before = driver.alive();
  const Result<void> timed = time_a_graph(device);
  EXPECT_TRUE(timed.ok()) << (timed.ok() ? "" : timed.error().message);
  EXPECT_EQ(driver.alive(), before);
}

TEST_F(DriverMemory, every_failing_call_is_an_error_or_harmless_and_leaks_nothing) {
  const Alive before = driver.alive();
  driver.fail_nothing();
  ASSERT_TRUE(time_a_graph(device).ok());
  const int calls = driver.calls();
  int errors = 0;
  for (int call = 0; call < calls; ++call) {
    driver.fail_call(call, CUDA_ERROR_UNKNOWN);
    errors += !time_a_graph(device).ok();
    EXPECT_EQ(driver.alive(), before) << "call " << call << ", " << driver.last_failed();
    driver.fail_nothing();
    const Result<DeviceBuffer> alive = DeviceBuffer::allocate(device, 8);
    EXPECT_TRUE(alive.ok()) << "a capture was left open after " << driver.last_failed();
  }
  EXPECT_GE(errors, 20) << "only calls that give back may fail unseen";
}

TEST_F(DriverMemory, a_capture_whose_caller_throws_ends_too) {
  const Result<StreamHandle> stream = StreamHandle::create(device);
  ASSERT_TRUE(stream.ok());
  const Alive before = driver.alive();
  EXPECT_THROW((void)Graph::capture(device, stream->get(), []() -> Result<void> { throw 1; }), int);
  EXPECT_EQ(driver.alive(), before) << "no graph is left, and no context pushed";
  EXPECT_TRUE(Graph::capture(device, stream->get(), [] { return Result<void>{}; }).ok());
}

TEST_F(DriverMemory, a_capture_that_fails_inside_ends_and_returns_the_inner_error) {
  const StreamHandle stream = *StreamHandle::create(device);
  const Result<Graph> graph = Graph::capture(device, stream.get(), [] {
    return Result<void>(Error{ErrorCode::invalid_argument, "inner"});
  });
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().message, "inner");
  EXPECT_TRUE(stream.synchronize().ok()) << "the stream must be out of capture";
  EXPECT_EQ(driver.alive().graphs, 0);
}

}  // namespace
}  // namespace sluice
