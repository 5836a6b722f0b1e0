// SPDX-License-Identifier: Apache-2.0
// sluice_run() on the fake driver: launches, kernels, workspaces and refusals. The second call of a problem
// allocates nothing, and calls the driver no more often than gemm::launch does. To see it fail: make a
// std::string in problem_of before the checks.
#include <atomic>
#include <initializer_list>
#include <thread>
#include <vector>

#include "allocation_counter.h"
#include "c_api_fixture.h"

namespace sluice {
namespace {

class CApiRun : public CApiTest {
 protected:
  Product product() { return {.a = at(a_), .b = at(b_), .d = at(d_)}; }

  void refused(const Product& p, sluice_status status, const char* mention) {
    const int before = driver.launches();
    failed(run(handle_, p, nullptr), status, mention, before);
  }

  int64_t use(const Product& p, const std::string& choices) {
    sluice_problem problem;
    EXPECT_EQ(describe(p, &problem), SLUICE_OK) << sluice_error_message();
    return CApiTest::use(problem, choices);
  }
  void use_split_plan(const Product& p) {
    EXPECT_GT(use(p,
                  "schedule=cooperative splits=2 combine=last_arriver tile_m=128 tile_n=128 cluster_m=1 "
                  "cluster_n=1"),
              0);
  }

  TestArray a_ = array(SLUICE_BF16, {256, 128});
  TestArray b_ = array(SLUICE_BF16, {128, 512}, {1, 128});
  TestArray d_ = array(SLUICE_BF16, {256, 512});
};

TEST_F(CApiRun, needs_a_compiler_only_once_and_then_only_launches) {
  const Product p = product();
  const sluice_status first = run(handle_, p, nullptr);
  ASSERT_EQ(first, SLUICE_OK) << sluice_error_message();
  ASSERT_EQ(driver.launches(), 1);
  const long before = allocations_of_this_thread();
  driver.make_current(0);
  driver.fail_nothing();
  const bool ok = run(handle_, p, nullptr) == SLUICE_OK;
  EXPECT_EQ(allocations_of_this_thread(), before);
  EXPECT_TRUE(ok);
  EXPECT_LE(driver.calls(), 6) << "those of gemm::launch";
  EXPECT_EQ(decode(driver.launch(1).params.map_a).address, reinterpret_cast<u64>(a_.array.data));
  const sluice_holdings holdings = held();
  EXPECT_EQ(holdings.kernels, 1);
  EXPECT_EQ(holdings.workspaces, 0);
}

/// The arrays determine the device, whichever one is current, as in a model that is spread over several GPUs.
TEST_F(CApiRun, the_arrays_say_on_which_device) {
  const Product p = product();
  driver.make_current(1);
  EXPECT_EQ(run(handle_, p, nullptr), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(driver.launches(), 1);
  EXPECT_EQ(driver.alive().pushed, 0) << "device 1 is current again";
  driver.make_current(0);
}

/// Calls with an explicit plan pass the kernel exactly the same parameters as sluice_run().
TEST_F(CApiRun, a_kernel_at_hand_is_launched_with_the_same_arguments) {
  Product p = product();
  TestArray c = array(SLUICE_BF16, {256, 512}), bias = array(SLUICE_BF16, {512}),
            rows = array(SLUICE_FP32, {256}), columns = array(SLUICE_FP32, {512});
  p.c = at(c), p.bias = at(bias), p.scale_a = at(rows), p.scale_b = at(columns);
  p.alpha = 0.5f, p.beta = -2.0f;
  ASSERT_EQ(run(handle_, p, nullptr), SLUICE_OK) << sluice_error_message();
  sluice_problem problem;
  sluice_plan* plan = nullptr;
  sluice_kernel* kernel = nullptr;
  sluice_workspace* workspace = nullptr;
  ASSERT_EQ(describe(p, &problem), SLUICE_OK) << sluice_error_message();
  ASSERT_EQ(sluice_plan_create(handle_, AsCall(problem), nullptr, &plan), SLUICE_OK)
      << sluice_error_message();
  ASSERT_EQ(sluice_prepare(handle_, plan, &kernel), SLUICE_OK) << sluice_error_message();
  ASSERT_EQ(sluice_workspace_create(handle_, -1, &workspace), SLUICE_OK) << sluice_error_message();
  sluice_call call = p.call();
  call.workspace = workspace;
  ASSERT_EQ(sluice_launch(kernel, &call, nullptr), SLUICE_OK) << sluice_error_message();
  const GemmParams& run = driver.launch(0).params;
  const GemmParams& launched = driver.launch(1).params;
  EXPECT_EQ(decode(launched.map_a).address, decode(run.map_a).address);
  EXPECT_EQ(decode(launched.map_b).address, decode(run.map_b).address);
  EXPECT_EQ(decode(launched.map_d).address, decode(run.map_d).address);
  EXPECT_EQ(launched.c, run.c);
  EXPECT_EQ(launched.d, run.d);
  EXPECT_EQ(launched.scale_a, run.scale_a);
  EXPECT_EQ(launched.scale_b, run.scale_b);
  EXPECT_EQ(launched.bias, run.bias);
  EXPECT_EQ(launched.bias, bias.array.data);
  EXPECT_EQ(launched.alpha, 0.5f);
  EXPECT_EQ(launched.beta, -2.0f);
  const auto refuses = [&](const sluice_kernel* k, const sluice_call* at, const char* mention) {
    EXPECT_EQ(sluice_launch(k, at, nullptr), SLUICE_INVALID_ARGUMENT);
    EXPECT_NE(std::string(sluice_error_message()).find(mention), std::string::npos) << sluice_error_message();
  };
  refuses(nullptr, &call, "kernel");
  refuses(kernel, nullptr, "call is NULL");
  call.bytes -= 8;
  refuses(kernel, &call, "begin with sluice_new_call()");
  EXPECT_EQ(driver.launches(), 2);
  sluice_workspace_free(workspace);
  sluice_kernel_free(kernel);
  sluice_plan_free(plan);
}

TEST_F(CApiRun, finds_what_was_prepared_in_another_spelling) {
  sluice_problem problem{};
  problem.m = 256, problem.n = 512, problem.k = 128, problem.batch = 1;  // without padding
  EXPECT_EQ(sluice_make_ready(handle_, AsCall(problem), -1, 0), SLUICE_INVALID_ARGUMENT);
  ASSERT_EQ(sluice_make_ready(handle_, AsCall(problem), 1, 0), SLUICE_OK) << sluice_error_message();
  Product p = product();
  p.accumulate = SLUICE_FAST;  // ignored: 16-bit inputs are always accumulated in fp32
  EXPECT_EQ(run(handle_, p, nullptr), SLUICE_OK) << sluice_error_message();
  const sluice_holdings holdings = held();
  EXPECT_EQ(holdings.kernels, 1);
}

/// A graph that was captured earlier still refers to the replaced kernel's function.
TEST_F(CApiRun, a_kernel_that_another_plan_replaces_stays_loaded) {
  const Product p = product();
  ASSERT_EQ(run(handle_, p, nullptr), SLUICE_OK) << sluice_error_message();
  const int before = driver.alive().modules;
  for (const int stages : {3, 2}) {
    use(p, "schedule=cooperative tile_m=128 tile_n=128 stages=" + std::to_string(stages));
  }
  EXPECT_EQ(driver.alive().modules, before + 2);
  const sluice_holdings holdings = held();
  EXPECT_EQ(holdings.kernels, 1);
}

TEST_F(CApiRun, errors_of_a_launch_say_what_the_caller_calls_its_arrays) {
  const char* names[SLUICE_OPERANDS] = {"mat_a", "mat_b", "c", "out"};
  Product p = product();
  TestArray over_a = d_;
  over_a.array.data = a_.array.data;
  p.d = at(over_a), p.names = names;
  refused(p, SLUICE_ALIASING, "out (");
  refused(p, SLUICE_ALIASING, "overlaps mat_a (");
  a_.strides = {-128, 1};
  p = product();
  p.names = names;
  refused(p, SLUICE_INVALID_STRIDE, "mat_a");
}

TEST_F(CApiRun, refuses_what_no_kernel_takes_and_names_it) {
  Product p = product();
  TestArray on_host = a_;
  on_host.array.device_type = SLUICE_ON_CPU;
  p.a = at(on_host);
  refused(p, SLUICE_WRONG_DEVICE, "must be in one memory");
  TestArray elsewhere = d_;
  elsewhere.array.device = 1;
  p = product();
  p.d = at(elsewhere);
  refused(p, SLUICE_WRONG_DEVICE, "cuda:1");
  TestArray scale = array(SLUICE_BF16, {1});
  p = product();
  p.scale_a = at(scale);
  refused(p, SLUICE_INVALID_TYPE, "scale_a is bf16");
  TestArray transposed_d = array(SLUICE_BF16, {256, 512}, {1, 256});
  p = product();
  p.d = at(transposed_d);
  refused(p, SLUICE_INVALID_STRIDE, "row-major");
  TestArray inner = array(SLUICE_BF16, {100, 512}, {1, 100});
  p = product();
  p.b = at(inner);
  refused(p, SLUICE_INVALID_SIZE, "(128, 512)");
  TestArray sparse = array(SLUICE_BF16, {256, 128}, {512, 2});
  p = product();
  p.a = at(sparse);
  refused(p, SLUICE_INVALID_STRIDE, "a.contiguous()");
}

/// When D is added to, any_order selects a different product from the ordered one.
TEST_F(CApiRun, adds_to_d_in_the_order_that_is_asked_for) {
  TestArray total = array(SLUICE_FP32, {256, 512});
  Product p = product();
  p.d = at(total), p.update = SLUICE_ADD, p.alpha = 0.0f;
  EXPECT_EQ(run(handle_, p, nullptr), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(driver.launches(), 0) << "nothing to add";
  p.alpha = 1.0f;
  EXPECT_EQ(run(handle_, p, nullptr), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(driver.launches(), 1);
  p.any_order = 1;
  EXPECT_EQ(run(handle_, p, nullptr), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(held().kernels, 2);
  p = product();
  p.d = at(total);
  EXPECT_EQ(run(handle_, p, nullptr), SLUICE_OK) << sluice_error_message();
  p.any_order = 1;  // has no effect when D is overwritten
  EXPECT_EQ(run(handle_, p, nullptr), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(held().kernels, 3);
}

TEST_F(CApiRun, refuses_what_cannot_be_added_to) {
  Product p = product();
  p.update = SLUICE_ADD;
  refused(p, SLUICE_INVALID_TYPE, "must be fp32");
  TestArray total = array(SLUICE_FP32, {256, 512});
  p.d = p.c = at(total), p.beta = 1.0f;
  refused(p, SLUICE_INVALID_TYPE, "leave out C");
  p.c = nullptr, p.update = 2;
  refused(p, SLUICE_INVALID_ARGUMENT, "update = 2 must be in 0..1");
  p.update = SLUICE_ADD, p.any_order = -1;
  refused(p, SLUICE_INVALID_ARGUMENT, "any_order = -1");
}

TEST_F(CApiRun, a_capture_finds_what_was_made_ready_and_nothing_else) {
  const Product p = product();
  sluice_problem problem;
  ASSERT_EQ(describe(p, &problem), SLUICE_OK);
  const auto stream = StreamHandle::create(device());
  ASSERT_TRUE(stream.ok());
  ASSERT_EQ(device().impl().api->cuStreamBeginCapture(stream->get(), CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_SUCCESS);
  EXPECT_EQ(run(handle_, p, stream->get()), SLUICE_NOT_PREPARED);
  EXPECT_NE(std::string(sluice_error_message()).find("prepare()"), std::string::npos)
      << sluice_error_message();
  CUgraph nothing = nullptr, graph = nullptr;
  device().impl().api->cuStreamEndCapture(stream->get(), &nothing);
  const sluice_status ready = sluice_make_ready(handle_, AsCall(problem), 1, 0);
  ASSERT_EQ(ready, SLUICE_OK) << sluice_error_message();
  ASSERT_EQ(device().impl().api->cuStreamBeginCapture(stream->get(), CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_SUCCESS);
  EXPECT_EQ(run(handle_, p, stream->get()), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(driver.launches(), 1);
  EXPECT_TRUE(driver.launch(0).captured);
  device().impl().api->cuStreamEndCapture(stream->get(), &graph);
  for (CUgraph made : {nothing, graph})
    if (made != nullptr) device().impl().api->cuGraphDestroy(made);
}

TEST_F(CApiRun, only_an_error_of_a_capture_counts_as_capturing) {
  const Product p = product();
  driver.fail_function("cuStreamIsCapturing", CUDA_ERROR_INVALID_HANDLE);
  refused(p, SLUICE_DRIVER, "cuStreamIsCapturing");
  driver.fail_function("cuStreamIsCapturing", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  refused(p, SLUICE_NOT_PREPARED, "capturing");
  driver.fail_nothing();
  EXPECT_EQ(run(handle_, p, nullptr), SLUICE_OK) << sluice_error_message();
}

/// A scale array with one value is a scale of the whole matrix, even if the problem said "vector"
/// (docs/python.md).
TEST_F(CApiRun, a_vector_of_one_value_is_a_scale_for_the_whole_matrix) {
  sluice_problem problem{};
  problem.m = 1, problem.n = 512, problem.k = 128, problem.batch = 1;
  problem.a.type = problem.b.type = SLUICE_E4M3, problem.scale_a = problem.scale_b = SLUICE_SCALE_VECTOR;
  ASSERT_EQ(sluice_make_ready(handle_, AsCall(problem), 1, 0), SLUICE_OK) << sluice_error_message();
  TestArray a = array(SLUICE_E4M3, {1, 128}), b = array(SLUICE_E4M3, {128, 512}, {1, 128});
  TestArray d = array(SLUICE_BF16, {1, 512}), one = array(SLUICE_FP32, {1, 1});
  TestArray columns = array(SLUICE_FP32, {1, 512});
  Product p = product();
  p.a = at(a), p.b = at(b), p.d = at(d), p.scale_a = at(one), p.scale_b = at(columns);
  EXPECT_EQ(run(handle_, p, nullptr), SLUICE_OK) << sluice_error_message();
  const sluice_holdings holdings = held();
  EXPECT_EQ(holdings.kernels, 1);
}

TEST_F(CApiRun, threads_of_one_stream_share_its_workspace) {
  const Product p = product();
  use_split_plan(p);
  const auto other = StreamHandle::create(device());
  ASSERT_EQ(run(handle_, p, other->get()), SLUICE_OK) << sluice_error_message();
  std::vector<std::thread> threads;
  std::atomic<int> failed = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 8; ++j) failed += run(handle_, p, nullptr) != SLUICE_OK;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  const sluice_holdings holdings = held();
  EXPECT_EQ(holdings.workspaces, 2);
  EXPECT_GT(holdings.workspace_bytes, 0);
  EXPECT_EQ(sluice_verify_workspaces(handle_), SLUICE_OK) << sluice_error_message();
}

TEST_F(CApiRun, split_sums_get_one_workspace_a_stream_and_one_a_graph) {
  const Product p = product();
  use_split_plan(p);
  const auto stream = StreamHandle::create(device());
  const DriverApi& api = *device().impl().api;
  std::vector<CUgraph> graphs;
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(api.cuStreamBeginCapture(stream->get(), CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    EXPECT_EQ(run(handle_, p, stream->get()), SLUICE_OK) << sluice_error_message();
    api.cuStreamEndCapture(stream->get(), &graphs.emplace_back());
  }
  EXPECT_EQ(run(handle_, p, stream->get()), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(driver.launches(), 3);
  EXPECT_NE(driver.launch(0).params.counters, driver.launch(1).params.counters);
  EXPECT_NE(driver.launch(1).params.counters, driver.launch(2).params.counters);
  EXPECT_EQ(sluice_verify_workspaces(handle_), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(sluice_reset_workspaces(handle_), SLUICE_OK);
  EXPECT_EQ(held().workspaces, 3);
  for (CUgraph made : graphs) api.cuGraphDestroy(made);
  EXPECT_EQ(held().workspaces, 1);
}

}  // namespace
}  // namespace sluice
