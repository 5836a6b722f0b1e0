// SPDX-License-Identifier: Apache-2.0
// Convolutions of the C interface. Arrays in torch's order become problems and launches on the fake driver. A
// call that no kernel can compute is refused, with the caller's names. To see it fail: let pixel_pitch() use
// the strides of dimensions of size 1, or let roles_of() treat dgrad as fprop.
#include <sluice/c_api/call.h>
#include <sluice/c_rows.h>

#include <sluice/run/ops/gemm.h>
#include <sluice/spec/conv_problem.h>

#include <limits>

#include "allocation_counter.h"
#include "c_api_fixture.h"

namespace sluice {
namespace {

using List = std::vector<int64_t>;

class CApiConv : public CApiTest {
 protected:
  /// Makes an array in channels_last order. `pitch`: elements from one pixel to the next; 0: the number of
  /// channels.
  TestArray image(sluice_dtype type, const List& shape, i64 pitch = 0) {
    List strides(shape.size());
    strides[1] = 1;
    i64 step = pitch != 0 ? pitch : shape[1];
    for (std::size_t i = shape.size() - 1; i > 1; --i) strides[i] = step, step *= shape[i];
    strides[0] = step;
    TestArray x = array(type, shape, strides);
    x.array.data = driver.memory(4 * (shape[0] * strides[0] + 64));
    return x;
  }

  /// A convolution with x of 2 x 64 x 14 x 14 and 128 filters of 3 x 3, padded by 1.
  Convolution convolution(int32_t op = SLUICE_FPROP) {
    return {.op = op, .spatial = 2, .x = at(x_), .w = at(w_), .y = at(y_), .padding = ones_.data()};
  }

  /// Expects that the call and sluice_describe() refuse the convolution in the same way.
  void refused(const Convolution& v, sluice_status status, const std::string& mention) {
    const int before = driver.launches();
    failed(run(handle_, v, nullptr), status, mention, before);
    const std::string message = sluice_error_message();
    sluice_problem problem;
    if (status != SLUICE_WRONG_DEVICE) failed(describe(v, &problem), status, mention, before);
    EXPECT_EQ(sluice_error_message(), message);
  }
  void runs(const Convolution& v) {
    const int before = driver.launches();
    EXPECT_EQ(run(handle_, v, nullptr), SLUICE_OK) << sluice_error_message();
    EXPECT_GT(driver.launches(), before);
  }
  static sluice_problem problem_of(const Convolution& v) {
    sluice_problem problem{};
    EXPECT_EQ(describe(v, &problem), SLUICE_OK) << sluice_error_message();
    return problem;
  }

  List ones_{1, 1, 1}, twos_{2, 2, 2};
  TestArray x_ = image(SLUICE_BF16, {2, 64, 14, 14});
  TestArray w_ = image(SLUICE_BF16, {128, 64, 3, 3});
  TestArray y_ = image(SLUICE_BF16, {2, 128, 14, 14});
};

TEST_F(CApiConv, needs_a_compiler_only_once_and_then_only_launches) {
  for (const int32_t op : {SLUICE_FPROP, SLUICE_DGRAD, SLUICE_WGRAD}) {
    const Convolution v = convolution(op);
    runs(v);
    const int launches = driver.launches();
    const long before = allocations_of_this_thread();
    const bool ok = run(handle_, v, nullptr) == SLUICE_OK;
    EXPECT_EQ(allocations_of_this_thread(), before) << op;
    EXPECT_TRUE(ok) << sluice_error_message();
    EXPECT_GT(driver.launches(), launches);
    EXPECT_EQ(held().kernels, op);
  }
}

/// A is the array that the taps are read from (fprop, dgrad), or dy (wgrad). B is the other input.
TEST_F(CApiConv, each_op_writes_the_array_that_it_computes) {
  const struct {
    int32_t op;
    TestArray &a, &b, &d;
  } cases[] = {{SLUICE_FPROP, x_, w_, y_}, {SLUICE_DGRAD, y_, w_, x_}, {SLUICE_WGRAD, y_, x_, w_}};
  for (const auto& [op, a, b, d] : cases) {
    Convolution v = convolution(op);
    runs(v);
    const GemmParams& params = driver.launch(driver.launches() - 1).params;
    EXPECT_EQ(decode(params.map_a).address, reinterpret_cast<u64>(a.array.data)) << op;
    EXPECT_EQ(decode(params.map_b).address, reinterpret_cast<u64>(b.array.data)) << op;
    EXPECT_EQ(params.d, d.array.data) << op;
    const Result<c_api::Call> call = c_api::call_of(v.call());
    ASSERT_TRUE(call.ok());
    EXPECT_EQ(call->args.a, a.array.data);
    EXPECT_EQ(call->args.b, b.array.data);
    EXPECT_EQ(call->args.d, d.array.data);
  }
}

TEST_F(CApiConv, lists_are_outermost_first_and_have_defaults) {
  const List stride{2, 1}, dilation{1, 2}, padding{3, 4}, after{0, 5};
  TestArray w = image(SLUICE_BF16, {128, 64, 2, 3});
  Convolution v = convolution();
  v.w = at(w);
  TestArray plain = image(SLUICE_BF16, {2, 128, 13, 12});
  v.y = at(plain), v.padding = nullptr;
  sluice_conv s = problem_of(v).conv;
  EXPECT_EQ(s.size[0], 14);
  EXPECT_EQ(s.stride[0] * s.stride[1] * s.dilation[0] * s.dilation[1], 1);
  EXPECT_EQ(s.padding[0] + s.padding[1] + s.padding_after[0] + s.padding_after[1], 0);
  TestArray y = image(SLUICE_BF16, {2, 128, 8, 19});
  v.y = at(y), v.stride = stride.data(), v.dilation = dilation.data(), v.padding = padding.data(),
  v.padding_after = after.data();
  s = problem_of(v).conv;
  EXPECT_EQ(s.op, SLUICE_FPROP);
  EXPECT_EQ(s.stride[0], 2);
  EXPECT_EQ(s.dilation[1], 2);
  EXPECT_EQ(s.padding[0], 3);
  EXPECT_EQ(s.padding_after[1], 5);
  EXPECT_EQ(s.filter[1], 3);
  const Result<Conv> conv = c_api::conv_of(s);
  ASSERT_TRUE(conv.ok());
  EXPECT_EQ(conv->stride, (Axes{1, 2, 1}));
  EXPECT_EQ(conv->dilation, (Axes{2, 1, 1}));
  EXPECT_EQ(conv->padding, (Axes{4, 3, 0}));
  EXPECT_EQ(conv->padding_after, (Axes{5, 0, 0}));
  v.padding_after = nullptr;
  refused(v, SLUICE_INVALID_SIZE, "y has shape (2, 128, 8, 19) and must have (2, 128, 10, 18)");
}

TEST_F(CApiConv, one_and_three_axes_are_convolutions_too) {
  Convolution v = convolution();
  TestArray x = image(SLUICE_BF16, {2, 64, 40}), w = image(SLUICE_BF16, {128, 64, 5}),
            y = image(SLUICE_BF16, {2, 128, 38});
  v.spatial = 1, v.x = at(x), v.w = at(w), v.y = at(y);
  runs(v);
  EXPECT_EQ(problem_of(v).m, 2 * 38);
  TestArray cube = image(SLUICE_FP16, {1, 64, 4, 6, 8}), filter = image(SLUICE_FP16, {64, 64, 3, 3, 3}),
            out = image(SLUICE_FP16, {1, 64, 2, 3, 4});
  v.spatial = 3, v.x = at(cube), v.w = at(filter), v.y = at(out), v.stride = twos_.data();
  runs(v);
  v.spatial = 2;
  refused(v, SLUICE_INVALID_SIZE, "x has shape (1, 64, 4, 6, 8) and must have 4 dimensions");
}

/// A dimension of size 1 may have any stride; frameworks leave it undefined. A 1 x 1 filter has the same
/// strides in KCRS and in KRSC order.
TEST_F(CApiConv, dimensions_of_one_say_nothing_about_the_layout) {
  constexpr int64_t kAny = 12345;
  TestArray w = array(SLUICE_BF16, {128, 64, 1, 1}, {64, 1, kAny, -kAny});
  Convolution v = convolution();
  v.w = at(w), v.padding = nullptr;
  runs(v);
  const sluice_problem pointwise = problem_of(v);
  EXPECT_EQ(pointwise.conv.op, SLUICE_FPROP);
  EXPECT_EQ(pointwise.m, 2 * 14 * 14);
  EXPECT_EQ(pointwise.k, 64);
  TestArray kcrs = array(SLUICE_BF16, {128, 64, 1, 1});
  v.w = at(kcrs);
  runs(v);
  EXPECT_EQ(held().kernels, 1);
  TestArray image = array(SLUICE_BF16, {1, 64, 1, 1}, {kAny, 1, 0, 7}),
            out = array(SLUICE_BF16, {1, 128, 1, 1}, {0, 1, -1, 3});
  v = convolution();
  v.x = at(image), v.y = at(out);
  runs(v);
  EXPECT_EQ(problem_of(v).conv.x_pitch, 0);
}

/// x may be a slice of channels, with gaps between pixels. Taps of the filter must be adjacent.
TEST_F(CApiConv, pixels_may_be_apart_and_taps_may_not) {
  TestArray x = image(SLUICE_BF16, {2, 64, 14, 14}, 192), y = image(SLUICE_BF16, {2, 128, 14, 14}, 256);
  Convolution v = convolution();
  v.x = at(x), v.y = at(y);
  runs(v);
  const sluice_problem p = problem_of(v);
  EXPECT_EQ(p.conv.x_pitch, 192);
  EXPECT_EQ(p.conv.y_pitch, 256);
  EXPECT_EQ(problem_of(convolution()).conv.x_pitch, 0);
  TestArray w = image(SLUICE_BF16, {128, 64, 3, 3}, 72);
  v.w = at(w);
  refused(v, SLUICE_INVALID_STRIDE, "its taps are 72 elements apart and must be 64");
  v = convolution();
  TestArray over = image(SLUICE_BF16, {2, 64, 14, 14}, 48);
  v.x = at(over);
  refused(v, SLUICE_INVALID_STRIDE, "its pixels are 48 elements apart and have 64 channels");
  TestArray odd = image(SLUICE_BF16, {2, 64, 14, 14}, 68);
  v.x = at(odd);
  refused(v, SLUICE_MISALIGNED, "68");
}

TEST_F(CApiConv, other_layouts_are_refused_with_torchs_remedy) {
  const char* names[] = {"input", "weight", "out", nullptr, nullptr, nullptr, nullptr, nullptr};
  Convolution v = convolution();
  TestArray nchw = array(SLUICE_BF16, {2, 64, 14, 14}), kcrs = array(SLUICE_BF16, {128, 64, 3, 3}),
            nkpq = array(SLUICE_BF16, {2, 128, 14, 14});
  v.names = names, v.x = at(nchw);
  refused(
      v, SLUICE_INVALID_STRIDE,
      "input has shape (2, 64, 14, 14) and strides packed: these are those of NCHW; its channels must be "
      "contiguous: pass input.contiguous(memory_format=torch.channels_last) (nothing is copied silently)");
  v = convolution();
  v.w = at(kcrs);
  refused(v, SLUICE_INVALID_STRIDE, "pass w.contiguous(memory_format=torch.channels_last)");
  v = convolution();
  v.y = at(nkpq);
  refused(v, SLUICE_INVALID_STRIDE, "make it with torch.empty(..., memory_format=torch.channels_last)");
  v = convolution(SLUICE_WGRAD);
  v.y = at(nkpq);
  refused(v, SLUICE_INVALID_STRIDE, "pass y.contiguous(memory_format=torch.channels_last)");
  TestArray turned = image(SLUICE_BF16, {2, 64, 14, 14});
  std::swap(turned.strides[2], turned.strides[3]);
  v = convolution();
  v.x = at(turned);
  refused(v, SLUICE_INVALID_STRIDE, "these are not those of channels_last");
  TestArray expanded = image(SLUICE_BF16, {2, 64, 14, 14});
  expanded.strides[0] = 0;
  v.x = at(expanded);
  refused(v, SLUICE_INVALID_STRIDE, "these are not those of channels_last");
  TestArray line = array(SLUICE_BF16, {2, 64, 40}), w = image(SLUICE_BF16, {128, 64, 3}),
            out = image(SLUICE_BF16, {2, 128, 40});
  v.spatial = 1, v.x = at(line), v.w = at(w), v.y = at(out);
  refused(v, SLUICE_INVALID_STRIDE,
          "NCW; its channels must be contiguous: pass x.transpose(1, 2).contiguous()");
}

TEST_F(CApiConv, shapes_and_types_must_fit_each_other) {
  Convolution v = convolution();
  v.x = nullptr;
  refused(v, SLUICE_INVALID_ARGUMENT, "x is missing");
  TestArray w = image(SLUICE_BF16, {128, 32, 3, 3});
  v = convolution();
  v.w = at(w);
  refused(v, SLUICE_INVALID_SIZE, "w has shape (128, 32, 3, 3) and x has 64 channels");
  TestArray y = image(SLUICE_BF16, {3, 128, 14, 14});
  v = convolution();
  v.y = at(y);
  refused(v, SLUICE_INVALID_SIZE, "y has shape (3, 128, 14, 14) and must have (2, 128, *, *)");
  TestArray half = image(SLUICE_FP16, {128, 64, 3, 3});
  v = convolution();
  v.w = at(half);
  refused(v, SLUICE_INVALID_TYPE, "w is fp16 and must be bf16 as x is");
  TestArray bytes = image(static_cast<sluice_dtype>(SLUICE_BYTE), {2, 64, 14, 14});
  v = convolution();
  v.x = at(bytes);
  refused(v, SLUICE_INVALID_TYPE, "x has an element type that no kernel takes");
  TestArray x = image(SLUICE_BF16, {2, 60, 14, 14}), narrow = image(SLUICE_BF16, {128, 60, 3, 3});
  v = convolution();
  v.x = at(x), v.w = at(narrow);
  refused(v, SLUICE_INVALID_SIZE, "channels = 60 must be a multiple of 8");
  v = convolution();
  v.padding = nullptr;
  refused(v, SLUICE_INVALID_SIZE, "must have (2, 128, 12, 12) by the sizes, stride, padding and dilation");
  for (const int32_t op : {4, -1}) refused(convolution(op), SLUICE_INVALID_ARGUMENT, "op = ");
  for (const int32_t spatial : {0, 4, -1}) {
    v = convolution();
    v.spatial = spatial;
    refused(v, SLUICE_INVALID_ARGUMENT, "spatial = " + std::to_string(spatial) + " must be in 1..3");
  }
}

TEST_F(CApiConv, errors_of_the_planner_say_what_the_caller_calls_its_arrays) {
  const char* names[] = {"input", "weight", "grad_output", nullptr, nullptr, nullptr, nullptr, nullptr};
  const List nine{9, 9}, huge{std::numeric_limits<int64_t>::max(), 1};
  Convolution v = convolution(SLUICE_WGRAD);
  TestArray y = image(SLUICE_BF16, {2, 128, 2, 2});
  v.y = at(y), v.names = names, v.stride = nine.data();
  refused(v, SLUICE_INVALID_SIZE, "[dy is grad_output, x is input, dw is weight]");
  v.stride = huge.data();
  refused(v, SLUICE_INVALID_SIZE, "stride[0] = 9223372036854775807 must be in 0..2147483647");
  const List none{0, 1}, negative{-1, 1};
  v.stride = none.data();
  refused(v, SLUICE_INVALID_SIZE, "stride = 0 along h");
  v.stride = nullptr, v.padding = negative.data();
  refused(v, SLUICE_INVALID_SIZE, "padding[0] = -1");
  v = convolution();
  TestArray over_x = y_;
  over_x.array.data = x_.array.data;
  v.y = at(over_x), v.names = names;
  failed(run(handle_, v, nullptr), SLUICE_ALIASING, "overlaps input (", driver.launches());
}

TEST_F(CApiConv, all_arrays_are_on_the_device_that_runs) {
  Convolution v = convolution();
  TestArray elsewhere = w_, on_host = x_;
  elsewhere.array.device = 1;
  on_host.array.device_type = SLUICE_ON_CPU;
  v.w = at(elsewhere);
  refused(v, SLUICE_WRONG_DEVICE, "w is in cuda:1 and x in cuda:0");
  v = convolution();
  v.x = at(on_host);
  refused(v, SLUICE_WRONG_DEVICE, "must be in one memory");
}

TEST_F(CApiConv, the_forward_epilogue_reads_bias_residual_and_scales) {
  TestArray bias = array(SLUICE_FP32, {128}), c = image(SLUICE_BF16, {2, 128, 14, 14}),
            one = array(SLUICE_FP32, {1});
  Convolution v = convolution();
  v.bias = at(bias), v.c = at(c), v.beta = 0.5f, v.activation = SLUICE_SILU;
  runs(v);
  const GemmParams& params = driver.launch(driver.launches() - 1).params;
  EXPECT_EQ(params.bias, bias.array.data);
  EXPECT_EQ(params.c, c.array.data);
  EXPECT_EQ(params.beta, 0.5f);
  const sluice_problem p = problem_of(v);
  EXPECT_EQ(p.bias_type, SLUICE_FP32);
  EXPECT_EQ(p.residual, 1);
  TestArray apart = image(SLUICE_BF16, {2, 128, 14, 14}, 256), small = image(SLUICE_BF16, {2, 128, 14, 13});
  v.c = at(apart);
  refused(v, SLUICE_INVALID_STRIDE, "its pixels must be as far apart as those of y");
  v.c = at(small);
  refused(v, SLUICE_INVALID_SIZE, "c has shape (2, 128, 14, 13) and must have (2, 128, 14, 14) as y has");
  v = convolution();
  TestArray short_bias = array(SLUICE_FP32, {64});
  v.bias = at(short_bias);
  refused(v, SLUICE_INVALID_SIZE, "(128,)");
  v = convolution(SLUICE_DGRAD);
  v.bias = at(bias);
  refused(v, SLUICE_INVALID_ARGUMENT, "bias is given and op is dgrad: only fprop takes it");
  v = convolution(SLUICE_WGRAD);
  v.scale_x = at(one);
  refused(v, SLUICE_INVALID_ARGUMENT, "scale_x is given and op is wgrad");
}

TEST_F(CApiConv, fp8_has_scales_and_is_forward_only) {
  TestArray x = image(SLUICE_E4M3, {2, 128, 14, 14}), w = image(SLUICE_E4M3, {128, 128, 3, 3}),
            one = array(SLUICE_FP32, {1}), each = array(SLUICE_FP32, {128, 1, 1, 1}),
            fewer = array(SLUICE_FP32, {64}), typed = array(SLUICE_BF16, {1});
  Convolution v = convolution();
  v.x = at(x), v.w = at(w), v.scale_x = at(one), v.scale_w = at(each);
  runs(v);
  sluice_problem p = problem_of(v);
  EXPECT_EQ(p.scale_a, SLUICE_SCALE_TENSOR);
  EXPECT_EQ(p.scale_b, SLUICE_SCALE_VECTOR);
  EXPECT_EQ(p.accumulate, SLUICE_PROMOTED);
  v.accumulate = SLUICE_FAST;
  EXPECT_EQ(problem_of(v).accumulate, SLUICE_FAST);
  v.scale_w = at(fewer);
  refused(v, SLUICE_INVALID_SIZE, "scale_w has shape (64,) and must have one value, or (128,)");
  v.scale_w = nullptr, v.scale_x = at(each);
  refused(v, SLUICE_INVALID_SIZE, "scale_x has shape (128, 1, 1, 1) and must have one value");
  v.scale_x = at(typed);
  refused(v, SLUICE_INVALID_TYPE, "scale_x is bf16 and must be fp32");
  v = convolution(SLUICE_WGRAD);
  TestArray y = image(SLUICE_E4M3, {2, 128, 14, 14}), dw = image(SLUICE_BF16, {128, 128, 3, 3});
  v.x = at(x), v.y = at(y), v.w = at(dw);
  refused(v, SLUICE_INVALID_TYPE, "WGMMA reads fp8 along k only");
}

TEST_F(CApiConv, gradients_of_weights_are_added_to_an_fp32_total) {
  TestArray total = image(SLUICE_FP32, {128, 64, 3, 3});
  Convolution v = convolution(SLUICE_WGRAD);
  v.w = at(total), v.update = SLUICE_ADD;
  runs(v);
  v.any_order = 1;
  runs(v);
  EXPECT_EQ(held().kernels, 2);
  EXPECT_EQ(problem_of(v).any_order, 1);
  v.any_order = 2;
  refused(v, SLUICE_INVALID_ARGUMENT, "any_order = 2");
  v = convolution(SLUICE_DGRAD);
  v.update = SLUICE_ADD;
  refused(v, SLUICE_INVALID_TYPE, "only wgrad adds");
}

/// The problem that sluice_describe() returns can be prepared and used like any other.
TEST_F(CApiConv, a_capture_finds_what_was_made_ready) {
  for (const int32_t op : {SLUICE_FPROP, SLUICE_DGRAD, SLUICE_WGRAD}) {
    Convolution v = convolution(op);
    sluice_problem p = problem_of(v);
    p.m = p.n = p.k = p.a.ld = -7;  // fields that the function ignores
    ASSERT_EQ(sluice_make_ready(handle_, AsCall(p), 1, 0), SLUICE_OK) << sluice_error_message();
    EXPECT_EQ(sluice_check(AsCall(p)), SLUICE_OK) << sluice_error_message();
    const auto stream = StreamHandle::create(device());
    const DriverApi& api = *device().impl().api;
    ASSERT_EQ(api.cuStreamBeginCapture(stream->get(), CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    EXPECT_EQ(run(handle_, v, stream->get()), SLUICE_OK) << sluice_error_message();
    v.accumulate = 0, v.activation = 0, v.alpha = 0.25f;
    CUgraph graph = nullptr;
    api.cuStreamEndCapture(stream->get(), &graph);
    if (graph != nullptr) api.cuGraphDestroy(graph);
    EXPECT_EQ(held().kernels, op);
  }
}

TEST_F(CApiConv, a_plan_with_choices_is_used_and_takes_the_callers_workspace) {
  const Convolution v = convolution(SLUICE_WGRAD);
  const int64_t bytes = use(problem_of(v), "splits=2, combine=last_arriver, cluster_m=1, cluster_n=1");
  ASSERT_GT(bytes, 0);
  sluice_workspace* workspace = nullptr;
  ASSERT_EQ(sluice_workspace_create(handle_, bytes, &workspace), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(run(handle_, v, nullptr, workspace), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(held().workspaces, 0);
  EXPECT_EQ(run(handle_, v, nullptr), SLUICE_OK) << sluice_error_message();
  EXPECT_EQ(held().workspaces, 1);
  EXPECT_EQ(run(nullptr, v, nullptr), SLUICE_INVALID_ARGUMENT);
  EXPECT_EQ(sluice_run(handle_, nullptr, nullptr), SLUICE_INVALID_ARGUMENT);
  EXPECT_EQ(sluice_describe(nullptr), SLUICE_INVALID_ARGUMENT);
  sluice_workspace_free(workspace);
}

TEST_F(CApiConv, a_problem_that_is_no_convolution_of_the_library_is_refused) {
  const sluice_problem good = problem_of(convolution());
  const auto refuses = [&](const sluice_problem& p, sluice_status status, const char* mention) {
    sluice_plan* plan = nullptr;
    failed(sluice_check(AsCall(p)), status, mention, 0);
    failed(sluice_plan_create(nullptr, AsCall(p), nullptr, &plan), status, mention, 0);
    EXPECT_EQ(plan, nullptr);
  };
  sluice_problem p = good;
  p.conv.op = 4;
  refuses(p, SLUICE_INVALID_ARGUMENT, "conv.op = 4 must be in 0..3");
  p = good, p.conv.spatial = 4;
  refuses(p, SLUICE_INVALID_ARGUMENT, "spatial = 4 must be in 1..3");
  p = good, p.b.type = SLUICE_FP16;
  refuses(p, SLUICE_INVALID_TYPE, "a is bf16 and b is fp16");
  p = good, p.gated = 1;
  refuses(p, SLUICE_INVALID_ARGUMENT, "gated = 1");
  p = good, p.packed.type = 1;
  refuses(p, SLUICE_INVALID_ARGUMENT, "packed.type = 1");
  p = good, p.conv.images = -1;
  refuses(p, SLUICE_INVALID_SIZE, "images = -1");
  p = good, p.conv.size[1] = int64_t{1} << 40;
  refuses(p, SLUICE_INVALID_SIZE, "size[1] = 1099511627776");
  p = good, p.conv.x_pitch = -8;
  refuses(p, SLUICE_INVALID_STRIDE, "-8");
  p = good, p.scale_a = p.scale_b = SLUICE_SCALE_BLOCK;
  refuses(p, SLUICE_INVALID_TYPE, "block scales");
  const sluice_row_range rows{1, 8};
  sluice_row_plans found{};
  failed(sluice_plan_rows(nullptr, AsCall(good), &rows, &found), SLUICE_INVALID_ARGUMENT,
         "a convolution has no range of numbers of rows", 0);
  failed(sluice_make_rows_ready(handle_, AsCall(good), &rows, nullptr), SLUICE_INVALID_ARGUMENT,
         "a convolution has no range of numbers of rows", 0);
}

}  // namespace
}  // namespace sluice
