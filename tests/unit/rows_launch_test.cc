// SPDX-License-Identifier: Apache-2.0
// A prepared range of rows on the fake driver. No m inside compiles or loads anything, even in a stream that
// captures. Another problem, or an m outside, is handled as without a range. Kernels of problems that were
// not prepared are limited in number. To see it fail: let ops::kernel_of_rows() return nothing.
#include <sluice/rows.h>

#include <time.h>

#include <sluice/c_api/handles.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/ops/gemm.h>
#include <sluice/run/ops/packed.h>

#include "packed_launch_fixture.h"
#include "tests/packed_problems.h"

namespace sluice {
namespace {

/// Returns the CPU time of this thread, because the wall clock includes other work on the machine.
double cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

#ifdef __SANITIZE_ADDRESS__
constexpr double kMostMs = 100;
#else
constexpr double kMostMs = 2;
#endif

class Rows : public PackedLaunchTest {
 protected:
  /// Returns the number of compiles and of loaded kernels so far.
  std::pair<int, int> work() { return {device().impl().cache.stats().compiles, driver.alive().modules}; }

  Problem fp8(i64 m) {
    Problem p{.m = m, .n = 4096, .k = 2048};
    p.a.type = p.b.type = DType::e4m3;
    p.epilogue = {.scale_a = ScaleMode::vector, .scale_b = ScaleMode::vector};
    return p;
  }
  PackedProblem int4(i64 m) {
    return {.m = m, .n = 1024, .k = 2048, .weights = {.type = WeightType::uint4, .group = 128}};
  }
};

TEST_F(Rows, no_m_of_a_prepared_range_compiles_or_loads) {
  const Result<RowSummary> ready = gemm::prepare(device(), fp8(0), {1, 512});
  ASSERT_TRUE(ready.ok()) << ready.error().message;
  const auto before = work();
  EXPECT_LE(before.first, kMostRowKernels);
  const gemm::Args args = args_for(fp8(512));
  double worst_ms = 0;
  for (i64 m = 1; m <= 512; ++m) {
    const double start = cpu_ms();
    const Result<void> done = gemm::run(device(), fp8(m), args, nullptr);
    worst_ms = std::max(worst_ms, cpu_ms() - start);
    ASSERT_TRUE(done.ok()) << m << ": " << done.error().message;
    ASSERT_EQ(work(), before) << m;
  }
  std::printf("worst first call of 1 to 512 rows: %.3f ms, with a driver that does nothing\n", worst_ms);
  EXPECT_LE(worst_ms, kMostMs);
}

TEST_F(Rows, an_m_outside_goes_the_ordinary_way) {
  ASSERT_TRUE(gemm::prepare(device(), fp8(0), {33, 64}).ok());
  const auto before = work();
  const gemm::Args args = args_for(fp8(512));
  ASSERT_TRUE(gemm::run(device(), fp8(512), args, nullptr).ok());
  EXPECT_GT(work().first, before.first);
  EXPECT_EQ(ops::kernel_of_rows<ops::Gemm>(device(), fp8(65)), std::nullopt);
  EXPECT_NE(ops::kernel_of_rows<ops::Gemm>(device(), fp8(64)), std::nullopt);
  Problem other = fp8(64);
  other.epilogue.activation = Activation::silu;
  EXPECT_EQ(ops::kernel_of_rows<ops::Gemm>(device(), other), std::nullopt) << "another epilogue";
  other = fp8(64);
  other.a.ld = 4096;
  EXPECT_EQ(ops::kernel_of_rows<ops::Gemm>(device(), other), std::nullopt) << "rows that lie otherwise";
}

TEST_F(Rows, one_row_is_served_however_its_scale_and_stride_are_spelled) {
  ASSERT_TRUE(gemm::prepare(device(), fp8(0), {1, 64}).ok());
  Problem one = fp8(1);
  EXPECT_NE(ops::kernel_of_rows<ops::Gemm>(device(), one), std::nullopt);
  one.epilogue.scale_a = ScaleMode::tensor;
  one.a.ld = 4096;
  EXPECT_NE(ops::kernel_of_rows<ops::Gemm>(device(), one), std::nullopt);
  Problem two = fp8(2);
  two.epilogue.scale_a = ScaleMode::tensor;
  EXPECT_EQ(ops::kernel_of_rows<ops::Gemm>(device(), two), std::nullopt);
}

/// Strides without padding, filled in for one m, are valid for every m.
TEST_F(Rows, a_range_of_a_problem_whose_strides_are_filled_in_serves_all_the_same) {
  ASSERT_TRUE(gemm::prepare(device(), with_strides(fp8(64)), {1, 200}).ok());
  for (const i64 m : {1, 64, 200})
    EXPECT_NE(ops::kernel_of_rows<ops::Gemm>(device(), fp8(m)), std::nullopt) << m;
  Problem wide = fp8(3);
  wide.a.ld = 4096;
  ASSERT_TRUE(gemm::prepare(device(), wide, {1, 40}).ok());
  wide.m = 17;
  EXPECT_EQ(ops::kernel_of_rows<ops::Gemm>(device(), wide)->plan().problem.a.ld, 4096);
}

TEST_F(Rows, products_of_packed_weights_do_the_same) {
  ASSERT_TRUE(gemm::prepare(device(), int4(0), {1, 300}).ok());
  const auto before = work();
  EXPECT_LE(before.first, kMostRowKernels);
  PackedProblem most = int4(300);
  const gemm::Args args = args_of(most);
  for (i64 m = 1; m <= 300; ++m) {
    ASSERT_TRUE(gemm::run(device(), int4(m), args, nullptr).ok()) << m;
    ASSERT_EQ(work(), before) << m;
  }
  EXPECT_EQ(ops::kernel_of_rows<ops::Gemm>(device(), int4(301)), std::nullopt);
}

TEST_F(Rows, a_stream_that_captures_may_meet_an_m_for_the_first_time) {
  c_api::Session session(device());
  const StreamHandle stream = *StreamHandle::create(device());
  ASSERT_TRUE(session.make_ready(fp8(0), RowRange{1, 64}).ok());
  const gemm::Args args = args_for(fp8(512));
  const auto before = work();
  const Result<Graph> graph = Graph::capture(device(), stream.get(), [&]() -> Result<void> {
    for (const i64 m : {5, 64})
      if (Result<void> done = gemm::run(device(), fp8(m), args, stream.get()); !done) return done;
    const Result<void> outside = gemm::run(device(), fp8(65), args, stream.get());
    EXPECT_FALSE(outside.ok());
    if (outside.ok()) return {};
    EXPECT_EQ(outside.error().code, ErrorCode::not_prepared);
    return {};
  });
  EXPECT_TRUE(graph.ok());
  EXPECT_EQ(work(), before);
}

TEST_F(Rows, the_same_range_again_is_there_already) {
  const Result<RowSummary> first = gemm::prepare(device(), fp8(0), {1, 64});
  const int calls = driver.calls();
  const Result<RowSummary> again = gemm::prepare(device(), fp8(0), {1, 64});
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_EQ(*first, *again);
  EXPECT_EQ(driver.calls(), calls);
}

TEST_F(Rows, a_compiler_that_fails_leaves_no_range_behind) {
  driver.fail_function("cuModuleLoadData", CUDA_ERROR_OUT_OF_MEMORY);
  const Result<RowSummary> failed = gemm::prepare(device(), fp8(0), {1, 64});
  EXPECT_FALSE(failed.ok());
  driver.fail_nothing();
  EXPECT_EQ(ops::kernel_of_rows<ops::Gemm>(device(), fp8(5)), std::nullopt);
  EXPECT_TRUE(gemm::prepare(device(), fp8(0), {1, 64}).ok());
}

/// Modules stay loaded when a kernel is dropped, because a graph may have captured it.
TEST_F(Rows, problems_that_nobody_asked_for_are_bounded_and_their_modules_stay) {
  ops::KeptKernels<Problem, gemm::Kernel> kernels(3);
  const auto make = [&](i64 m) { return [this, m]() -> Result<gemm::Kernel> { return prepared(fp8(m)); }; };
  const auto ask_for = [&](const Problem& p) {
    if (!kernels.keep(p)) kernels.add(p, prepared(p));
  };
  ask_for(fp8(1));
  for (const i64 m : {2, 200, 4}) ASSERT_TRUE(kernels.get(fp8(m), make(m)).ok());
  EXPECT_EQ(kernels.size(), 4u);
  ASSERT_TRUE(kernels.find(fp8(2)).has_value());  // makes it the most recently used
  const int modules = driver.alive().modules;
  ASSERT_TRUE(kernels.get(fp8(500), make(500)).ok());  // needs a kernel of its own, as m = 200 did
  EXPECT_EQ(kernels.size(), 4u);
  EXPECT_FALSE(kernels.find(fp8(200)).has_value());
  for (const i64 m : {1, 2, 4, 500}) EXPECT_TRUE(kernels.find(fp8(m)).has_value()) << m;
  EXPECT_EQ(driver.alive().modules, modules + 1);
  // A problem that was prepared on request stays too.
  ask_for(fp8(2));
  for (i64 m = 20; m < 40; ++m) ASSERT_TRUE(kernels.get(fp8(m), make(m)).ok());
  EXPECT_TRUE(kernels.find(fp8(1)).has_value());
  EXPECT_TRUE(kernels.find(fp8(2)).has_value());
  EXPECT_EQ(kernels.size(), 5u);
}

}  // namespace
}  // namespace sluice
