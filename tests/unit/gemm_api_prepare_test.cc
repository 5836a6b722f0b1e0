// SPDX-License-Identifier: Apache-2.0
// Prepare and run: each config is compiled once, its module is loaded once, and results keep the order of the
// plans. Inconsistent plans are refused, and no failing compile or driver call leaks. To see it fail: store
// shared_ptr instead of weak_ptr in Device::Impl::modules.
#include "launch_fixture.h"

#include <atomic>
#include <thread>

namespace sluice {
namespace {

class GemmApi : public LaunchTest {
 protected:
  Plan planned(const Problem& problem) { return *gemm::plan(problem, device().info()); }
  int compiles() { return device().impl().cache.stats().compiles; }

  void expect_bad_plan(const Plan& plan, ErrorCode code, const std::string& mention) {
    const Result<gemm::Kernel> kernel = gemm::prepare(device(), plan);
    ASSERT_FALSE(kernel.ok()) << mention;
    EXPECT_EQ(kernel.error().code, code) << kernel.error().message;
    EXPECT_NE(kernel.error().message.find(mention), std::string::npos) << kernel.error().message;
    EXPECT_EQ(compiles(), 0);
  }
};

TEST_F(GemmApi, a_kernel_knows_its_plan_registers_and_compiler) {
  const gemm::Kernel kernel = prepared(small_problem());
  EXPECT_EQ(kernel.plan().problem.a.ld, 128);
  EXPECT_EQ(kernel.registers(), 168);
  EXPECT_EQ(kernel.built_by(), "fake 1.0");
}

TEST_F(GemmApi, a_kernel_outlives_the_device) {
  {
    std::optional<gemm::Kernel> kernel;
    {
      const Device other = *open_fake_device();
      kernel = *gemm::prepare(other, *gemm::plan(small_problem(), other.info()));
    }
    EXPECT_EQ(driver.alive().contexts, 2);
    launched(gemm::launch(*kernel, args_for(small_problem()), nullptr), 1);
  }
  EXPECT_EQ(driver.alive(), Alive{.contexts = 1});
}

TEST_F(GemmApi, many_plans_give_results_in_order_and_one_compile_a_config) {
  Problem other = small_problem();
  other.epilogue.activation = Activation::silu;
  Problem bigger = small_problem();
  bigger.batch = 4;
  std::vector<Plan> plans{planned(small_problem()), planned(other), planned({.m = 0, .n = 8, .k = 8}),
                          planned(small_problem()), planned(bigger)};
  plans[4].config = plans[0].config;
  plans[4].split = plans[0].split;
  plans.push_back(plans[0]);
  plans[5].config.stages = 1;
  std::vector<std::pair<int, int>> seen;
  const auto kernels =
      gemm::prepare(device(), plans, [&](int done, int total) { seen.emplace_back(done, total); });
  ASSERT_EQ(kernels.size(), plans.size());
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(kernels[i].ok()) << kernels[i].error().message;
    EXPECT_EQ(kernels[i]->plan().problem, plans[i].problem);
  }
  EXPECT_EQ(kernels[5].error().code, ErrorCode::invalid_config);
  EXPECT_EQ(seen, (std::vector<std::pair<int, int>>{{1, 2}, {2, 2}}));
  EXPECT_EQ(compiles(), 2);
  EXPECT_EQ(driver.alive().modules, 2);
  EXPECT_EQ(kernels[0]->impl().modules, kernels[4]->impl().modules);
}

TEST_F(GemmApi, modules_go_when_nobody_uses_them) {
  { const gemm::Kernel kernel = prepared(small_problem()); }
  EXPECT_EQ(driver.alive().modules, 0);
  const gemm::Kernel again = prepared(small_problem());
  EXPECT_EQ(driver.alive().modules, 1);
  EXPECT_EQ(compiles(), 1) << "the cubin is still in the cache";
}

TEST_F(GemmApi, inconsistent_plans_are_refused_before_the_compiler_runs) {
  const Plan good = planned(small_problem());
  Plan bad = good;
  bad.config.tile.n = 12;
  expect_bad_plan(bad, ErrorCode::invalid_config, "tile.n must be a multiple of 8");
  bad = good;
  bad.problem.d.type = DType::fp16;
  expect_bad_plan(bad, ErrorCode::invalid_config, "types must be those of the problem");
  bad = good;
  bad.problem.a = {.major = Major::mn};
  expect_bad_plan(bad, ErrorCode::invalid_config, "layouts");
  bad = good;
  bad.problem.epilogue.bias = Bias::column;
  expect_bad_plan(bad, ErrorCode::invalid_config, "epilogue");
  bad = good;
  bad.split.clusters = 0;
  expect_bad_plan(bad, ErrorCode::invalid_config, "split.clusters = 0");
  bad = good;
  bad.split.group = 0;
  expect_bad_plan(bad, ErrorCode::invalid_config, "split.group = 0");
  bad = good;
  bad.problem.m = -5;
  expect_bad_plan(bad, ErrorCode::invalid_size, "m = -5");
  bad = good;
  bad.problem.n = (i64{1} << 31) - 1;  // its last tile would end beyond 2^31
  expect_bad_plan(bad, ErrorCode::invalid_size, "2^31");
  bad = good;
  bad.split.group = 1 << 30;
  bad.problem.m = 1 << 20;
  expect_bad_plan(bad, ErrorCode::invalid_size, "2^31");
  EXPECT_EQ(driver.alive().modules, 0);
}

/// Without this check the kernel would run, with the other precision of sums.
TEST_F(GemmApi, a_plan_that_promotes_otherwise_than_its_problem_says_is_refused) {
  Problem p = small_problem();
  p.a.type = p.b.type = DType::e4m3;
  p.accumulate = Accumulate::fast;
  Plan bad = planned(p);
  bad.problem.accumulate = Accumulate::promoted;
  expect_bad_plan(bad, ErrorCode::invalid_config, "accumulate = promoted needs");
  p.accumulate = Accumulate::promoted;
  bad = planned(p);
  bad.problem.accumulate = Accumulate::fast;
  expect_bad_plan(bad, ErrorCode::invalid_config, "accumulate = fast needs");
}

/// If rows of D overlap, two tiles write the same element. If C's rows are too short, a row contains another
/// row's values.
TEST_F(GemmApi, a_plan_whose_rows_or_matrices_of_c_and_d_overlap_is_refused) {
  Problem p = small_problem();
  p.epilogue.residual = true;
  p.batch = 2;
  const Plan good = planned(p);
  Plan bad = good;
  bad.problem.d.ld = p.n - 16;
  expect_bad_plan(bad, ErrorCode::invalid_stride, "rows of D would overlap");
  bad = good;
  bad.problem.d.batch_stride = 16;
  expect_bad_plan(bad, ErrorCode::invalid_stride, "matrices of D would overlap");
  bad = good;
  bad.problem.c.ld = p.n - 16;
  expect_bad_plan(bad, ErrorCode::invalid_stride, "rows of C would overlap");
}

TEST_F(GemmApi, a_plan_with_strides_that_its_loads_cannot_step_by_is_refused) {
  Plan bad = planned(small_problem());
  bad.problem.a.ld = 129;
  const Result<gemm::Kernel> kernel = gemm::prepare(device(), bad);
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.error().code, ErrorCode::invalid_config);
  EXPECT_NE(kernel.error().message.find("load_a and load_b must be those of"), std::string::npos);
  bad.problem.a.ld = 128;
  bad.problem.batch = 2;
  bad.problem.d.batch_stride = i64{1} << 62;
  EXPECT_EQ(gemm::prepare(device(), bad).error().code, ErrorCode::invalid_size);
  EXPECT_EQ(driver.alive().modules, 0);
}

TEST_F(GemmApi, a_tma_store_that_would_write_past_rows_of_d_is_refused) {
  Plan bad = planned(small_problem());
  ASSERT_EQ(bad.config.store, StorePath::tma);
  bad.problem.n = 509;
  bad.problem.d.ld = 512;
  expect_bad_plan(bad, ErrorCode::invalid_config, "past its end");
}

TEST_F(GemmApi, unused_epilogue_types_do_not_matter) {
  Problem p = small_problem();
  p.epilogue.bias_type = DType::fp16;  // there is no bias
  p.epilogue.c_type = DType::fp32;     // there is no residual
  launched(gemm::launch(prepared(p), args_for(p), nullptr), 1);
}

TEST_F(GemmApi, a_failing_compiler_is_reported_for_its_plans) {
  device().impl().cache = KernelCache({}, {.version = [] { return std::string("fake 2.0"); },
                                           .compile = [](const std::string&) -> Result<Cubin> {
                                             return Error{ErrorCode::toolchain, "no such instruction"};
                                           }});
  const std::vector<Plan> plans{planned(small_problem()), planned({.m = 0, .n = 8, .k = 8})};
  const auto kernels = gemm::prepare(device(), plans);
  EXPECT_EQ(kernels[0].error().code, ErrorCode::toolchain);
  EXPECT_TRUE(kernels[1].ok()) << "an empty problem needs no compiler";
}

TEST_F(GemmApi, every_failing_call_of_prepare_is_an_error_and_leaks_nothing) {
  const Plan plan = planned(small_problem());
  ASSERT_TRUE(gemm::prepare(device(), plan).ok());  // puts the cubin into the cache
  const Alive before = driver.alive();
  driver.fail_nothing();
  std::optional<gemm::Kernel> kernel = *gemm::prepare(device(), plan);
  const int calls = driver.calls() - 1;  // the last call pops the context
  kernel.reset();
  for (int call = 0; call < calls; ++call) {
    driver.fail_call(call, CUDA_ERROR_UNKNOWN);
    const Result<gemm::Kernel> failed = gemm::prepare(device(), plan);
    // Without a capture it is harmless if the mode cannot be set: RelaxedCapture leaves the error to the call
    // that needs the mode.
    if (std::string(driver.last_failed()) == "cuThreadExchangeStreamCaptureMode") continue;
    ASSERT_FALSE(failed.ok()) << driver.last_failed();
    EXPECT_EQ(failed.error().code, ErrorCode::driver) << failed.error().message;
    EXPECT_NE(failed.error().message.find(driver.last_failed()), std::string::npos) << failed.error().message;
    EXPECT_EQ(driver.alive(), before) << driver.last_failed();
  }
  driver.fail_nothing();
  EXPECT_TRUE(gemm::prepare(device(), plan).ok()) << "and works again";
}

/// If the query of the clusters' places fails, it is an error or less is known, and the next plan queries
/// again.
TEST_F(GemmApi, every_failing_call_of_the_first_plan_by_gpc_leaks_nothing) {
  Plan plan = planned(small_problem());
  plan.split.numbering = Numbering::gpc;
  ASSERT_TRUE(gemm::prepare(device(), plan).ok());  // puts the cubins into the cache
  device().impl().gpc_order.reset();
  const Alive before = driver.alive();
  driver.fail_nothing();
  ASSERT_TRUE(gemm::prepare(device(), plan).ok());
  const int calls = driver.calls() - 1;
  EXPECT_GT(calls, 15) << "five cluster sizes, three launches each";
  int errors = 0;
  for (int call = 0; call < calls; ++call) {
    device().impl().gpc_order.reset();
    driver.fail_call(call, CUDA_ERROR_UNKNOWN);
    const Result<gemm::Kernel> failed = gemm::prepare(device(), plan);
    if (!failed.ok()) {
      ++errors;
      EXPECT_EQ(failed.error().code, ErrorCode::driver) << failed.error().message;
      EXPECT_NE(failed.error().message.find(driver.last_failed()), std::string::npos)
          << failed.error().message;
      EXPECT_EQ(driver.alive(), before) << driver.last_failed();
    }
  }
  EXPECT_GT(errors, 10);
  driver.fail_nothing();
  EXPECT_TRUE(gemm::prepare(device(), plan).ok()) << "and works again";
  EXPECT_EQ(driver.alive(), before);
}

TEST_F(GemmApi, run_prepares_once_and_keeps_the_kernel) {
  const gemm::Args args = args_for(full_problem());
  for (int i = 0; i < 3; ++i) launched(gemm::run(device(), full_problem(), args, nullptr), i + 1);
  Problem other = full_problem();
  other.m = 128;
  launched(gemm::run(device(), other, args, nullptr), 4);
  EXPECT_EQ(driver.launch(3).params.m, 128);
  EXPECT_EQ(ops::kept<ops::Gemm>(device()).size(), 2u);
}

TEST_F(GemmApi, run_from_many_threads_is_right) {
  const gemm::Args args = args_for(full_problem());
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int call = 0; call < 20; ++call) {
        Problem p = full_problem();
        p.m = 128 + 16 * ((i + call) % 3);
        failures += !gemm::run(device(), p, args, nullptr).ok();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(driver.launches(), 80);
  EXPECT_EQ(ops::kept<ops::Gemm>(device()).size(), 3u);
}

TEST_F(GemmApi, run_keeps_no_failed_preparation) {
  driver.fail_function("cuModuleLoadData", CUDA_ERROR_OUT_OF_MEMORY);
  refused(gemm::run(device(), full_problem(), args_for(full_problem()), nullptr), ErrorCode::driver,
          "free GPU memory");
  driver.fail_nothing();
  launched(gemm::run(device(), full_problem(), args_for(full_problem()), nullptr), 1);
}

}  // namespace
}  // namespace sluice
