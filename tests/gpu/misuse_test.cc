// SPDX-License-Identifier: Apache-2.0
// Invalid calls on a real GPU. Each must return its documented error, launch no kernel (launches are counted)
// and leave the poison in D. tests/unit tests this with a fake driver; here pointer attributes and capture
// states are real.
#include <sluice/check/verify.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/memory.h>

#include "counting_device.h"
#include "gpu.h"

namespace sluice::testing {
namespace {

class misuse : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(ok(counting_device()));
  }
  const Device& counted() const { return *counting_device(); }
  const Problem good{.m = 256, .n = 256, .k = 256};

  /// Launches `good` with arguments altered by `change`. Expects the error `code`, and that D is unchanged.
  template <class Change>
  void expect_refused(ErrorCode code, const std::string& in_message, const Change& change) {
    const auto plan = gemm::plan(good, counted().info());
    ASSERT_TRUE(ok(plan));
    const auto kernel = gemm::prepare(counted(), *plan);
    ASSERT_TRUE(ok(kernel));
    const auto verifier = Verifier::create(device());
    ASSERT_TRUE(ok(verifier));
    const auto data = verifier->make_data(good, exact_data(good, 1), nullptr);
    ASSERT_TRUE(ok(data));
    gemm::Args args = data->args();
    change(args);
    const int before = launches_counted();
    const Result<void> launched = gemm::launch(*kernel, args, nullptr);
    ASSERT_FALSE(launched.ok()) << "was accepted";
    EXPECT_EQ(name_of(launched.error().code), std::string(name_of(code))) << launched.error().message;
    EXPECT_NE(launched.error().message.find(in_message), std::string::npos) << launched.error().message;
    EXPECT_EQ(launches_counted(), before);
    const auto found = verifier->check(*data, {.judge = Judge::unwritten}, nullptr);
    ASSERT_TRUE(ok(found));
    EXPECT_TRUE(is_right(*found)) << describe(*found);
  }

  void expect_no_plan(ErrorCode code, const Problem& problem) {
    const auto plan = gemm::plan(problem, counted().info());
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(name_of(plan.error().code), std::string(name_of(code))) << plan.error().message;
    const int before = launches_counted();
    EXPECT_FALSE(gemm::run(counted(), problem, {}, nullptr).ok());
    EXPECT_EQ(launches_counted(), before);
  }
};

const void* shifted(const void* pointer, i64 bytes) {
  return static_cast<const char*>(pointer) + bytes;
}

TEST_F(misuse, the_good_call_is_accepted_and_counted) {
  const auto plan = gemm::plan(good, counted().info());
  ASSERT_TRUE(ok(plan));
  const auto kernel = gemm::prepare(counted(), *plan);
  ASSERT_TRUE(ok(kernel));
  const auto verifier = Verifier::create(device());
  ASSERT_TRUE(ok(verifier));
  const auto data = verifier->make_data(good, exact_data(good, 1), nullptr);
  ASSERT_TRUE(ok(data));
  const int before = launches_counted();
  ASSERT_TRUE(ok(gemm::launch(*kernel, data->args(), nullptr)));
  EXPECT_EQ(launches_counted(), before + 1);
  const auto found = verifier->check(*data, {}, nullptr);
  ASSERT_TRUE(ok(found));
  EXPECT_TRUE(is_right(*found)) << describe(*found);
}

TEST_F(misuse, null_pointers_are_refused) {
  expect_refused(ErrorCode::invalid_pointer, "A", [](gemm::Args& args) { args.a = nullptr; });
  expect_refused(ErrorCode::invalid_pointer, "B", [](gemm::Args& args) { args.b = nullptr; });
  expect_refused(ErrorCode::invalid_pointer, "D", [](gemm::Args& args) { args.d = nullptr; });
}

TEST_F(misuse, host_memory_is_refused) {
  alignas(16) static char host[16];
  expect_refused(ErrorCode::invalid_pointer, "A", [](gemm::Args& args) { args.a = host; });
}

TEST_F(misuse, misaligned_pointers_are_refused) {
  expect_refused(ErrorCode::misaligned, "A", [](gemm::Args& args) { args.a = shifted(args.a, 2); });
  expect_refused(ErrorCode::misaligned, "B", [](gemm::Args& args) { args.b = shifted(args.b, 8); });
  expect_refused(ErrorCode::misaligned, "D",
                 [](gemm::Args& args) { args.d = const_cast<void*>(shifted(args.d, 2)); });
}

TEST_F(misuse, d_over_an_input_is_refused) {
  expect_refused(ErrorCode::aliasing, "A", [](gemm::Args& args) { args.a = args.d; });
  expect_refused(ErrorCode::aliasing, "B", [](gemm::Args& args) { args.b = shifted(args.d, 4096); });
}

TEST_F(misuse, strides_shorter_than_rows_are_refused) {
  Problem problem = good;
  problem.a.ld = 248;
  expect_no_plan(ErrorCode::invalid_stride, problem);
  problem = good;
  problem.d.ld = 128;
  expect_no_plan(ErrorCode::invalid_stride, problem);
}

TEST_F(misuse, rows_that_tma_cannot_step_along_are_refused) {
  Problem problem = good;
  problem.k = 100;
  problem.a.type = problem.b.type = DType::e4m3;
  expect_no_plan(ErrorCode::misaligned, problem);
}

TEST_F(misuse, negative_and_oversized_problems_are_refused) {
  Problem problem = good;
  problem.m = -1;
  expect_no_plan(ErrorCode::invalid_size, problem);
  problem = good;
  problem.n = i64{1} << 31;
  expect_no_plan(ErrorCode::invalid_size, problem);
}

TEST_F(misuse, other_architectures_are_refused) {
  DeviceInfo ampere = counted().info();
  ampere.compute_major = 8;
  const auto plan = gemm::plan(good, ampere);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::unsupported_arch);
}

TEST_F(misuse, memory_of_another_device_is_refused) {
  const auto second = Device::open(1, options_from_environment());
  if (!second) GTEST_SKIP() << "one GPU here: " << second.error().message;
  const auto foreign = DeviceBuffer::allocate(*second, 1 << 20);
  ASSERT_TRUE(ok(foreign));
  expect_refused(ErrorCode::wrong_device, "B", [&](gemm::Args& args) { args.b = foreign->data(); });
}

TEST_F(misuse, running_an_unprepared_problem_under_capture_is_refused) {
  const Problem unseen{.m = 248, .n = 232, .k = 216};
  const auto verifier = Verifier::create(device());
  ASSERT_TRUE(ok(verifier));
  const auto data = verifier->make_data(unseen, exact_data(unseen, 1), nullptr);
  ASSERT_TRUE(ok(data));
  ASSERT_TRUE(ok(synchronize(device())));
  const auto stream = StreamHandle::create(device());
  ASSERT_TRUE(ok(stream));
  const int before = launches_counted();
  const auto graph = Graph::capture(
      device(), stream->get(), [&] { return gemm::run(counted(), unseen, data->args(), stream->get()); });
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().code, ErrorCode::not_prepared) << graph.error().message;
  EXPECT_EQ(launches_counted(), before);
  ASSERT_TRUE(ok(gemm::run(counted(), unseen, data->args(), stream->get())))
      << "outside of the capture it runs";
  const auto found = verifier->check(*data, {}, stream->get());
  ASSERT_TRUE(ok(found));
  EXPECT_TRUE(is_right(*found)) << describe(*found);
}

TEST_F(misuse, empty_products_succeed_without_a_launch) {
  for (const Problem& empty : {Problem{.m = 0, .n = 64, .k = 64}, Problem{.m = 64, .n = 0, .k = 64},
                               Problem{.m = 64, .n = 64, .k = 64, .batch = 0}}) {
    const int before = launches_counted();
    EXPECT_TRUE(ok(gemm::run(counted(), empty, {}, nullptr)));
    EXPECT_EQ(launches_counted(), before);
  }
}

}  // namespace
}  // namespace sluice::testing
