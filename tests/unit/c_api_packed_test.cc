// SPDX-License-Identifier: Apache-2.0
// Packed weights through the C interface, on the fake driver: a packed product launches, prepares and refuses
// as a dense one does, and its second call allocates nothing. Packing runs on host and device. To see it
// fail: make a std::string in packed_call_of before the checks, or leave a.ld out of packed_key.
#include <sluice/c_api.h>
#include <sluice/c_api/handles.h>

#include <cstring>
#include <vector>

#include <sluice/run/records/record_store.h>
#include "allocation_counter.h"

#include "c_api_calls.h"
#include "cache_fake.h"
#include "launch_fixture.h"
#include "packed_formats.h"
#include "tests/packed_problems.h"
#include "tuner_fixture.h"

namespace sluice {
namespace {

constexpr sluice_weight_format kFormat{SLUICE_UINT4, 64, SLUICE_FP16, 1, SLUICE_ORDER_HALF};
constexpr int64_t kM = 4, kN = 192, kK = 256, kGroups = 4;

struct TestArray {
  std::vector<int64_t> shape, strides;
  sluice_array array{};
};

class CApiPacked : public LaunchTest {
 protected:
  CApiPacked() : handle_(new sluice_device{c_api::Session(device()), "fake"}) {}
  ~CApiPacked() override { sluice_device_close(handle_); }

  static TestArray array_at(void* data, int32_t type, std::vector<int64_t> shape) {
    TestArray x{std::move(shape), {}, {}};
    x.array = {.data = data,
               .dtype = type,
               .ndim = static_cast<int32_t>(x.shape.size()),
               .device_type = SLUICE_ON_CUDA,
               .device = 0};
    return x;
  }
  TestArray array(int32_t type, std::vector<int64_t> shape) {
    i64 bytes = 4;
    for (const int64_t extent : shape) bytes *= extent;
    return array_at(driver.memory(bytes), type, std::move(shape));
  }
  static const sluice_array* at(TestArray& x) {
    x.array.shape = x.shape.data();
    x.array.strides = x.strides.empty() ? nullptr : x.strides.data();
    return &x.array;
  }
  static int64_t blob_bytes_of(const sluice_weight_format& format) {
    sluice_packed_numbers numbers{};
    EXPECT_EQ(sluice_packed_numbers_of(&format, kN, kK, &numbers), SLUICE_OK) << sluice_error_message();
    return numbers.blob_bytes;
  }

  Product product() {
    return {.a = at(x_), .b = at(blob_), .d = at(d_), .packed = kFormat, .n = kN, .k = kK};
  }
  static sluice_problem problem_of_format() {
    sluice_problem p{};
    p.m = kM, p.n = kN, p.k = kK, p.batch = 1, p.packed = kFormat;
    return p;
  }
  sluice_packing packing() {
    return {.format = kFormat,
            .codes = at(codes_),
            .scales = at(scales_),
            .zeros = at(zeros_),
            .blob = at(blob_)};
  }

  void expect_refused(sluice_status got, sluice_status wanted, const char* mention) {
    EXPECT_EQ(got, wanted) << sluice_error_message();
    EXPECT_NE(std::string(sluice_error_message()).find(mention), std::string::npos) << sluice_error_message();
    EXPECT_EQ(driver.launches(), 0);
  }
  void refused(const Product& p, sluice_status status, const char* mention) {
    expect_refused(run(handle_, p, nullptr), status, mention);
  }
  void refused(const sluice_packing& p, sluice_status status, const char* mention) {
    expect_refused(sluice_pack(handle_, &p, nullptr), status, mention);
    expect_refused(sluice_unpack(handle_, &p, nullptr), status, mention);
  }
  int64_t kernels_held() {
    sluice_holdings holdings{};
    EXPECT_EQ(sluice_device_holdings(handle_, &holdings), SLUICE_OK) << sluice_error_message();
    return holdings.kernels;
  }

  sluice_device* handle_;
  TestArray x_ = array(SLUICE_BF16, {kM, kK}), d_ = array(SLUICE_FP32, {kM, kN});
  TestArray codes_ = array(SLUICE_BYTE, {kN, kK});
  TestArray scales_ = array(SLUICE_FP16, {kN, kGroups}), zeros_ = array(SLUICE_FP16, {kN, kGroups});
  TestArray blob_ = array(SLUICE_BYTE, {blob_bytes_of(kFormat)});
};

TEST_F(CApiPacked, a_product_is_prepared_once_and_then_only_launched) {
  TestArray bias = array(SLUICE_BF16, {kN});
  Product p = product();
  p.bias = at(bias), p.activation = SLUICE_SILU;
  const sluice_status first = run(handle_, p, nullptr);
  ASSERT_EQ(first, SLUICE_OK) << sluice_error_message();
  ASSERT_EQ(driver.launches(), 1);
  const long before = allocations_of_this_thread();
  const bool ok = run(handle_, p, nullptr) == SLUICE_OK;
  EXPECT_EQ(allocations_of_this_thread(), before);
  EXPECT_TRUE(ok);
  const NarrowParams& params = driver.launch(1).narrow;
  EXPECT_EQ(params.x, x_.array.data);
  EXPECT_EQ(params.weights, blob_.array.data);
  EXPECT_EQ(params.d, d_.array.data);
  EXPECT_EQ(params.bias, bias.array.data);
  EXPECT_EQ(params.m, kM);
  EXPECT_EQ(params.n, kN);
  EXPECT_EQ(params.k, kK);
  EXPECT_EQ(kernels_held(), 1);
}

TEST_F(CApiPacked, finds_what_was_prepared_in_another_spelling) {
  sluice_problem problem = problem_of_format();
  problem.a.type = SLUICE_BF16, problem.d.type = SLUICE_FP32;
  problem.bias_type = SLUICE_BF16;  // ignored, because there is no bias
  EXPECT_EQ(sluice_make_ready(handle_, AsCall(problem), -1, 0), SLUICE_INVALID_ARGUMENT);
  ASSERT_EQ(sluice_make_ready(handle_, AsCall(problem), 1, 0), SLUICE_OK) << sluice_error_message();
  const Product p = product();  // here the pitches come from the arrays
  EXPECT_EQ(run(handle_, p, nullptr), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(kernels_held(), 1);
  problem.m = 1, problem.a.ld = 1000;  // ignored, because there is only one row
  ASSERT_EQ(sluice_make_ready(handle_, AsCall(problem), 1, 0), SLUICE_OK) << sluice_error_message();
  x_.shape[0] = d_.shape[0] = 1;
  EXPECT_EQ(run(handle_, p, nullptr), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(kernels_held(), 2);
}

TEST_F(CApiPacked, a_plan_is_one_like_others) {
  sluice_problem problem{};
  sluice_plan* plan = nullptr;
  sluice_kernel* kernel = nullptr;
  const Product p = product();
  ASSERT_EQ(describe(p, &problem), SLUICE_OK) << sluice_error_message();
  ASSERT_EQ(sluice_plan_create(handle_, AsCall(problem),
                               "schedule=narrow, warps=4, cluster_k=2, stages=2, tile_n=32", &plan),
            SLUICE_OK)
      << sluice_error_message();
  EXPECT_NE(std::strstr(sluice_plan_config(plan), ".n = 1, .k = 2}"), nullptr) << sluice_plan_config(plan);
  EXPECT_NE(std::strstr(sluice_plan_text(plan), "uint4"), nullptr) << sluice_plan_text(plan);
  EXPECT_EQ(sluice_plan_unit_count(plan), 1);
  EXPECT_STREQ(sluice_plan_source(plan), "model");
  EXPECT_EQ(sluice_plan_workspace_bytes(plan), 0);
  EXPECT_GT(sluice_plan_estimate_us(plan), 0);
  ASSERT_EQ(sluice_prepare(handle_, plan, &kernel), SLUICE_OK) << sluice_error_message();
  sluice_call call = p.call();
  EXPECT_EQ(sluice_launch(kernel, &call, nullptr), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(driver.launch(0).narrow.weights, blob_.array.data);
  call.operands[SLUICE_B] = nullptr;
  EXPECT_EQ(sluice_launch(kernel, &call, nullptr), SLUICE_INVALID_POINTER);
  const int modules = driver.alive().modules;
  ASSERT_EQ(sluice_use_plan(handle_, plan), SLUICE_OK) << sluice_error_message();
  ASSERT_EQ(run(handle_, p, nullptr), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(driver.launch(1).cluster_x, 2u);
  sluice_kernel_free(kernel);
  sluice_plan_free(plan);
  ASSERT_EQ(sluice_plan_create(handle_, AsCall(problem),
                               "schedule=narrow warps=4 cluster_k=2 stages=3 tile_n=32", &plan),
            SLUICE_OK)
      << sluice_error_message();
  ASSERT_EQ(sluice_use_plan(handle_, plan), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(driver.alive().modules, modules + 1) << "a graph may hold the one that was replaced";
  sluice_plan_free(plan);
  EXPECT_EQ(kernels_held(), 1);
}

TEST_F(CApiPacked, a_field_of_one_kernel_is_a_choice) {
  sluice_problem problem = problem_of_format();
  problem.m = 512, problem.n = 28672, problem.a.type = problem.d.type = SLUICE_FP16;
  sluice_plan* plan = nullptr;
  for (const int ctas : {1, 2}) {
    const std::string text = "schedule=wide, cluster_n=" + std::to_string(ctas),
                      told = ".n = " + std::to_string(ctas) + ", .k = 1}";
    ASSERT_EQ(sluice_plan_create(handle_, AsCall(problem), text.c_str(), &plan), SLUICE_OK)
        << sluice_error_message();
    EXPECT_NE(std::strstr(sluice_plan_config(plan), told.c_str()), nullptr) << sluice_plan_config(plan);
    sluice_plan_free(plan);
  }
  EXPECT_EQ(sluice_plan_create(handle_, AsCall(problem), "schedule=wide, cluster_n=3", &plan),
            SLUICE_INVALID_CONFIG);
  EXPECT_NE(std::strstr(sluice_error_message(), "cluster_n must be 1 or 2"), nullptr)
      << sluice_error_message();
}

/// A tuning record chooses the kernel. The plan says so, and the call runs that kernel.
TEST_F(CApiPacked, a_record_of_the_problem_is_planned_and_run) {
  const test::TemporaryFolder folder;
  Options options = options_from_environment();
  options.records_dir = folder / "records";
  TuningRecord record = sample_packed_record();
  record.key = key_of(tuned_packed_problem(), device().info());
  ASSERT_TRUE(RecordStore::open_folder(options.records_dir)->save(record));
  const Result<Device> opened = open_fake_device(options);
  ASSERT_TRUE(opened.ok());
  sluice_device* handle = new sluice_device{c_api::Session(*opened), "fake"};
  const sluice_problem problem = c_api::values_of(tuned_packed_problem());
  sluice_plan* plan = nullptr;
  ASSERT_EQ(sluice_plan_create(handle, AsCall(problem), nullptr, &plan), SLUICE_OK) << sluice_error_message();
  EXPECT_STREQ(sluice_plan_source(plan), "record");
  EXPECT_EQ(sluice_plan_estimate_us(plan), 7.125);
  sluice_plan_free(plan);
  ASSERT_EQ(sluice_plan_create(handle, AsCall(problem), "ignore_records=true", &plan), SLUICE_OK)
      << sluice_error_message();
  EXPECT_STREQ(sluice_plan_source(plan), "model");
  sluice_plan_free(plan);
  TestArray x = array(SLUICE_FP16, {16, 4096}), d = array(SLUICE_FP16, {16, 4096});
  TestArray blob = array(SLUICE_BYTE, {blob_bytes(tuned_packed_problem().weights, 4096, 4096)});
  Product p = product();
  p.packed = problem.packed, p.n = p.k = 4096;
  p.a = at(x), p.d = at(d), p.b = at(blob);
  ASSERT_EQ(run(handle, p, nullptr), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(driver.launch(0).block_x, 128u) << "the record's four warps";
  sluice_device_close(handle);
}

/// A device fills the cache folder. sluice_compile(), which has no compiler, must find every kernel there.
TEST_F(CApiPacked, what_is_compiled_ahead_is_all_that_is_asked_for) {
  const test::TemporaryFolder folder;
  const std::string cache = folder / "kernels", nowhere = folder / "nowhere";
  const test::FakeCompiler compiler;
  Options options = options_from_environment();
  options.cache_dir = cache;
  const Result<Device> counted = open_fake_device(options);
  ASSERT_TRUE(counted.ok());
  counted->impl().cache = KernelCache(options, compiler.seam());
  sluice_problem problem = problem_of_format();
  problem.a.type = problem.d.type = SLUICE_FP16;
  c_api::Session session(*counted);
  const Problem checked = *c_api::problem_of(problem);
  ASSERT_TRUE(session.make_ready({&checked, 1}, 0).ok());
  ASSERT_TRUE(session.make_packer_ready(checked.b.packed).ok());
  EXPECT_EQ(*compiler.calls, 3);
  std::filesystem::create_directory(nowhere);
  const sluice_options given{cache.c_str(), nowhere.c_str(), nullptr, 0, 1, -1};
  sluice_compiled done{};
  sluice_plan* plan = nullptr;
  ASSERT_EQ(sluice_plan_create(nullptr, AsCall(problem), nullptr, &plan), SLUICE_OK)
      << sluice_error_message();
  EXPECT_EQ(sluice_compile(&plan, 1, &given, &done), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(done.already_there, 1);
  EXPECT_EQ(sluice_compile_packer(&kFormat, &given, &done), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(done.already_there, 2);
  EXPECT_EQ(done.compiled + done.failed, 0);
  sluice_plan_free(plan);
}

TEST_F(CApiPacked, a_capture_finds_what_was_made_ready_and_nothing_else) {
  const Product p = product();
  const sluice_packing packed = packing();
  const DriverApi& api = *device().impl().api;
  const auto stream = StreamHandle::create(device());
  ASSERT_TRUE(stream.ok());
  ASSERT_EQ(api.cuStreamBeginCapture(stream->get(), CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  expect_refused(run(handle_, p, stream->get()), SLUICE_NOT_PREPARED, "prepare()");
  expect_refused(sluice_pack(handle_, &packed, stream->get()), SLUICE_NOT_PREPARED, "prepare_packer()");
  CUgraph nothing = nullptr, graph = nullptr;
  api.cuStreamEndCapture(stream->get(), &nothing);
  sluice_problem problem{};
  ASSERT_EQ(describe(p, &problem), SLUICE_OK);
  ASSERT_EQ(sluice_make_ready(handle_, AsCall(problem), 1, 0), SLUICE_OK) << sluice_error_message();
  ASSERT_EQ(sluice_make_packer_ready(handle_, &kFormat), SLUICE_OK) << sluice_error_message();
  ASSERT_EQ(api.cuStreamBeginCapture(stream->get(), CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(sluice_pack(handle_, &packed, stream->get()), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(run(handle_, p, stream->get()), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(driver.launches(), 2);
  EXPECT_TRUE(driver.launch(1).captured);
  api.cuStreamEndCapture(stream->get(), &graph);
  for (CUgraph made : {nothing, graph})
    if (made != nullptr) api.cuGraphDestroy(made);
}

TEST_F(CApiPacked, what_a_product_refuses) {
  refused(Product{}, SLUICE_INVALID_ARGUMENT, "a is missing");
  Product p = product();
  p.a = nullptr;
  refused(p, SLUICE_INVALID_ARGUMENT, "a is missing");
  p = product();
  p.k = kK - 8;
  refused(p, SLUICE_INVALID_SIZE, "a has shape (4, 256) and must have two dimensions, m x 248");
  p = product();
  p.n = -1;
  refused(p, SLUICE_INVALID_SIZE, "n = -1");
  p = product(), p.activation = 9;
  refused(p, SLUICE_INVALID_ARGUMENT, "activation = 9");
  p = product();
  p.packed.type = 5;
  refused(p, SLUICE_INVALID_ARGUMENT, "packed.type = 5 must be in 0..4");
  p = product();
  p.packed.group = 128;
  refused(p, SLUICE_INVALID_SIZE, "b has shape");
  const char* const names[] = {"tokens", "w", nullptr, "result", nullptr, nullptr, nullptr, nullptr, nullptr};
  x_.strides = {kK + 1, 1};
  p = product(), p.names = names;
  refused(p, SLUICE_MISALIGNED, "[A is tokens, B is w");
  x_.strides = {1, kM};
  p.a = at(x_);
  refused(p, SLUICE_INVALID_STRIDE, "tokens has shape (4, 256) and strides (1, 4)");
  x_.strides.clear();
  x_.array.device = 1;
  p = product();
  refused(p, SLUICE_WRONG_DEVICE, "b is in cuda:0 and a in cuda:1");
  x_.array.device = blob_.array.device = d_.array.device = 1;
  p = product();
  refused(p, SLUICE_WRONG_DEVICE, "a is on cuda:1 and the call is for cuda:0");
}

/// Each optional operand reaches the kernel's parameters.
TEST_F(CApiPacked, what_stands_around_a_product_is_launched_with_it) {
  TestArray c = array(SLUICE_FP32, {kM, kN}), gamma = array(SLUICE_BF16, {kK}),
            half = array(SLUICE_FP32, {kM, 64});
  TestArray gate_and_up =
      array(SLUICE_BYTE,
            {blob_bytes({.type = WeightType::uint4, .group = 64, .zero = ScaleZero::per_group}, 128, kK)});
  Product p = product();
  p.c = at(c), p.beta = 1;
  ASSERT_EQ(run(handle_, p, nullptr), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(driver.launch(0).narrow.c, c.array.data);
  p = product();
  p.gamma = at(gamma), p.epsilon = 0.5f;
  ASSERT_EQ(run(handle_, p, nullptr), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(driver.launch(1).narrow.gamma, gamma.array.data);
  EXPECT_EQ(driver.launch(1).narrow.epsilon, 0.5f);
  p = product();
  p.n = 128;
  p.gated = 1, p.b = at(gate_and_up), p.d = at(half), p.activation = SLUICE_SILU;
  ASSERT_EQ(run(handle_, p, nullptr), SLUICE_OK) << sluice_error_message();
  sluice_problem problem{};
  ASSERT_EQ(describe(p, &problem), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(problem.gated, 1);
  EXPECT_EQ(problem.n, 128);
  EXPECT_EQ(sluice_check(AsCall(problem)), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(kernels_held(), 3);
}

TEST_F(CApiPacked, what_packed_products_do_not_have_is_refused_by_name) {
  TestArray c = array(SLUICE_BF16, {kM, kN}), scale = array(SLUICE_FP32, {1});
  Product p = product();
  p.c = at(c), p.beta = 1;
  refused(p, SLUICE_INVALID_TYPE, "c is bf16 and must be fp32 as d is");
  p = product();
  p.scale_b = at(scale);
  refused(p, SLUICE_INVALID_ARGUMENT, "scale_b is given and the weights are packed");
  p = product();
  p.alpha = 2;
  refused(p, SLUICE_INVALID_ARGUMENT, "alpha and beta must be 1");
  sluice_problem turned = problem_of_format(), scaled = turned, added = turned;
  turned.a.major = scaled.scale_b = added.update = 1;
  expect_refused(sluice_check(AsCall(turned)), SLUICE_INVALID_ARGUMENT,
                 "a.major = 1 of a product of packed weights must be 0");
  expect_refused(sluice_check(AsCall(scaled)), SLUICE_INVALID_ARGUMENT, "scale_b = 1");
  expect_refused(sluice_check(AsCall(added)), SLUICE_INVALID_ARGUMENT, "update = 1");
  sluice_problem problem = problem_of_format();
  problem.batch = 2;
  expect_refused(sluice_check(AsCall(problem)), SLUICE_INVALID_ARGUMENT, "batch = 2");
  problem = problem_of_format();
  problem.a.ld = kK + 1;
  expect_refused(sluice_check(AsCall(problem)), SLUICE_MISALIGNED, "a.ld = 257");
  problem = problem_of_format();
  problem.packed = {}, problem.norm_a = 1;
  expect_refused(sluice_check(AsCall(problem)), SLUICE_INVALID_ARGUMENT, "norm_a = 1 and packed.type = 0");
}

TEST_F(CApiPacked, what_packing_refuses) {
  sluice_packing p = packing();
  p.codes = nullptr;
  refused(p, SLUICE_INVALID_ARGUMENT, "codes is missing");
  p = packing(), p.zeros = nullptr;
  refused(p, SLUICE_INVALID_ARGUMENT, "zeros is missing");
  p = packing(), p.format.zeros = 0;
  refused(p, SLUICE_INVALID_ARGUMENT, "zeros are given");
  p = packing(), p.format.scale = SLUICE_BF16;
  refused(p, SLUICE_INVALID_TYPE, "scales is fp16 and the format says bf16");
  p = packing(), p.format.type = SLUICE_E4M3_WEIGHT;
  refused(p, SLUICE_INVALID_CONFIG, "no zeros");
  codes_.strides = {1, kN};
  p = packing();
  refused(p, SLUICE_INVALID_STRIDE, "codes.contiguous()");
  codes_.strides.clear();
  scales_.array.device_type = SLUICE_ON_CPU;
  p = packing();
  refused(p, SLUICE_WRONG_DEVICE, "scales is in host memory and codes in cuda:0");
  scales_.array.device_type = SLUICE_ON_CUDA;
  p = packing();
  expect_refused(sluice_pack_on_host(&p), SLUICE_WRONG_DEVICE, "call sluice_pack");
}

TEST_F(CApiPacked, on_the_host_it_is_the_definition) {
  for (const WeightFormat& format : test::all_formats()) {
    SCOPED_TRACE(test::text_of(format));
    const test::RandomWeights weights(format, 70, 200, 1);
    const WeightArrays given = weights.arrays();
    const std::vector<u8> wanted = *pack_weights(format, given);
    std::vector<u8> blob(wanted.size());
    const int64_t groups = group_count(format, 200);
    const auto host = [](const void* data, int32_t type, std::vector<int64_t> shape) {
      TestArray x = array_at(const_cast<void*>(data), type, std::move(shape));
      x.array.device_type = SLUICE_ON_CPU;
      return x;
    };
    const auto scale = format.scale == DType::e8m0 ? SLUICE_BYTE : static_cast<int32_t>(format.scale);
    TestArray codes = host(given.codes, SLUICE_BYTE, {70, 200}),
              scales = host(given.scales, scale, {70, groups});
    TestArray zeros = host(given.zeros, scale, {70, groups});
    TestArray packed = host(blob.data(), SLUICE_BYTE, {static_cast<int64_t>(blob.size())});
    sluice_packing what{c_api::values_of(format), at(codes), at(scales),
                        given.zeros != nullptr ? at(zeros) : nullptr, at(packed)};
    ASSERT_EQ(sluice_pack_on_host(&what), SLUICE_OK) << sluice_error_message();
    EXPECT_EQ(blob, wanted);
    const std::size_t scale_bytes = static_cast<std::size_t>(70 * groups * bytes_of(format.scale));
    std::vector<u8> codes_again(70 * 200), scales_again(scale_bytes), zeros_again(scale_bytes);
    codes.array.data = codes_again.data(), scales.array.data = scales_again.data();
    zeros.array.data = zeros_again.data();
    ASSERT_EQ(sluice_unpack_on_host(&what), SLUICE_OK) << sluice_error_message();
    EXPECT_EQ(std::memcmp(codes_again.data(), given.codes, codes_again.size()), 0);
    EXPECT_EQ(std::memcmp(scales_again.data(), given.scales, scale_bytes), 0);
    if (given.zeros != nullptr) {
      EXPECT_EQ(std::memcmp(zeros_again.data(), given.zeros, scale_bytes), 0);
    }
  }
  EXPECT_EQ(driver.launches(), 0);
}

TEST_F(CApiPacked, gated_weights_have_halves_of_their_own) {
  const WeightFormat format{.group = 64};
  const test::RandomWeights weights(format, 144, 200, 1);
  WeightArrays given = weights.arrays();
  given.gated = true;
  const std::vector<u8> wanted = *pack_weights(format, given);
  std::vector<u8> blob(wanted.size());
  const auto host = [](const void* data, int32_t type, std::vector<int64_t> shape) {
    TestArray x = array_at(const_cast<void*>(data), type, std::move(shape));
    x.array.device_type = SLUICE_ON_CPU;
    return x;
  };
  TestArray codes = host(given.codes, SLUICE_BYTE, {144, 200});
  TestArray scales = host(given.scales, SLUICE_FP16, {144, 4});
  TestArray packed = host(blob.data(), SLUICE_BYTE, {static_cast<int64_t>(blob.size())});
  sluice_packing what{c_api::values_of(format), at(codes), at(scales), nullptr, at(packed), 1};
  ASSERT_EQ(sluice_pack_on_host(&what), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(blob, wanted);
  what.gated = 0;
  expect_refused(sluice_pack_on_host(&what), SLUICE_INVALID_SIZE, "144 x 200 weights in this format");
  what.gated = 2;
  expect_refused(sluice_pack_on_host(&what), SLUICE_INVALID_ARGUMENT, "gated = 2");
  what.gated = 1;
  codes.shape[0] = scales.shape[0] = 136;
  what.codes = at(codes), what.scales = at(scales);
  packed.shape[0] = gated_blob_bytes(format, 136, 200), what.blob = at(packed);
  expect_refused(sluice_pack_on_host(&what), SLUICE_INVALID_SIZE, "n = 136 of a gated product");
}

/// One block of memory holds the blob and the other arrays, one after the other.
TEST_F(CApiPacked, on_the_host_what_is_written_overlaps_nothing_else) {
  const WeightFormat format{.type = WeightType::int8};
  const i64 blob_size = blob_bytes(format, 64, 128);
  std::vector<u8> memory(static_cast<std::size_t>(2 * blob_size), 5);
  std::vector<u8> scale_bytes(64 * 2), blob_memory(static_cast<std::size_t>(blob_size));
  const auto host = [](void* data, int32_t type, std::vector<int64_t> shape) {
    TestArray x = array_at(data, type, std::move(shape));
    x.array.device_type = SLUICE_ON_CPU;
    return x;
  };
  TestArray codes = host(memory.data(), SLUICE_BYTE, {64, 128}),
            scales = host(scale_bytes.data(), SLUICE_FP16, {64, 1}),
            blob = host(memory.data() + 64, SLUICE_BYTE, {blob_size});
  sluice_packing what{c_api::values_of(format), at(codes), at(scales), nullptr, at(blob)};
  const std::vector<u8> before = memory;
  expect_refused(sluice_pack_on_host(&what), SLUICE_ALIASING, "blob (0x");
  expect_refused(sluice_unpack_on_host(&what), SLUICE_ALIASING, "codes (0x");
  blob.array.data = blob_memory.data();
  scales.array.data = memory.data() + 1000;  // inside the codes; allowed, as both are only read
  ASSERT_EQ(sluice_pack_on_host(&what), SLUICE_OK) << sluice_error_message();
  expect_refused(sluice_unpack_on_host(&what), SLUICE_ALIASING, "codes (0x");
  EXPECT_EQ(memory, before);
}

}  // namespace
}  // namespace sluice
