// SPDX-License-Identifier: Apache-2.0
// The values of a convolution's cuDNN descriptors: dimensions in torch's order, channels-last strides, axes
// outermost first.
#include <gtest/gtest.h>

#include "bench/contender/cudnn_problem.h"

namespace sluice::bench {
namespace {

using List = std::vector<i64>;

/// Returns a convolution of 5 x 7 pixels (h x w) with 24 channels to 40, filter 2 x 3, strides 1 x 2 and
/// asymmetric padding.
CudnnConvolution plane() {
  return {.conv = {.op = ConvOp::fprop,
                   .spatial = 2,
                   .images = 3,
                   .channels = 24,
                   .filters = 40,
                   .size = {7, 5, 1},
                   .filter = {3, 2, 1},
                   .stride = {2, 1, 1},
                   .dilation = {2, 1, 1},
                   .padding = {1, 0, 0},
                   .padding_after = {4, 1, 0}}};
}

TEST(cudnn_shape, planes_are_channels_last) {
  const CudnnConvolution p = plane();
  const CudnnShape x = shape_of(p, CudnnTensor::x), w = shape_of(p, CudnnTensor::w),
                   y = shape_of(p, CudnnTensor::y);
  EXPECT_EQ(x.dimensions, (List{3, 24, 5, 7}));
  EXPECT_EQ(x.strides, (List{5 * 7 * 24, 1, 7 * 24, 24}));
  EXPECT_EQ(w.dimensions, (List{40, 24, 2, 3}));
  EXPECT_EQ(w.strides, (List{2 * 3 * 24, 1, 3 * 24, 24}));
  EXPECT_EQ(y.dimensions, (List{3, 40, 5, 4}));
  EXPECT_EQ(y.strides, (List{5 * 4 * 40, 1, 4 * 40, 40}));
  EXPECT_EQ(span_of(p, CudnnTensor::x), 3 * 5 * 7 * 24);
  EXPECT_EQ(span_of(p, CudnnTensor::w), 40 * 6 * 24);
  EXPECT_EQ(span_of(p, CudnnTensor::y), 3 * 5 * 4 * 40);
}

TEST(cudnn_shape, lists_begin_at_the_outermost_axis) {
  const Conv p = plane().conv;
  EXPECT_EQ(outermost_first(p, p.stride), (List{1, 2}));
  EXPECT_EQ(outermost_first(p, p.dilation), (List{1, 2}));
  EXPECT_EQ(outermost_first(p, p.padding), (List{0, 1}));
  EXPECT_EQ(outermost_first(p, p.padding_after), (List{1, 4}));
}

TEST(cudnn_shape, one_axis_is_two_for_cudnn_and_three_are_three) {
  const CudnnConvolution line{.conv = {.op = ConvOp::fprop,
                                       .spatial = 1,
                                       .images = 2,
                                       .channels = 8,
                                       .filters = 16,
                                       .size = {100, 1, 1},
                                       .filter = {31, 1, 1},
                                       .padding = {15, 0, 0},
                                       .padding_after = {15, 0, 0}}};
  EXPECT_EQ(shape_of(line, CudnnTensor::x).dimensions, (List{2, 8, 1, 100}));
  EXPECT_EQ(shape_of(line, CudnnTensor::x).strides, (List{800, 1, 800, 8}));
  EXPECT_EQ(shape_of(line, CudnnTensor::w).dimensions, (List{16, 8, 1, 31}));
  EXPECT_EQ(outermost_first(line.conv, line.conv.padding), (List{0, 15}));
  const CudnnConvolution room{.conv = {.op = ConvOp::fprop,
                                       .spatial = 3,
                                       .images = 1,
                                       .channels = 96,
                                       .filters = 64,
                                       .size = {9, 8, 7},
                                       .filter = {1, 1, 3},
                                       .padding = {0, 0, 2}}};
  EXPECT_EQ(shape_of(room, CudnnTensor::x).dimensions, (List{1, 96, 7, 8, 9}));
  EXPECT_EQ(shape_of(room, CudnnTensor::x).strides, (List{7 * 8 * 9 * 96, 1, 8 * 9 * 96, 9 * 96, 96}));
  EXPECT_EQ(shape_of(room, CudnnTensor::w).dimensions, (List{64, 96, 3, 1, 1}));
  EXPECT_EQ(outermost_first(room.conv, room.conv.padding), (List{2, 0, 0}));
}

TEST(cudnn_shape, a_pitch_spreads_the_pixels) {
  CudnnConvolution p = plane();
  p.conv.x_pitch = 32;
  p.conv.y_pitch = 64;
  EXPECT_EQ(shape_of(p, CudnnTensor::x).strides, (List{5 * 7 * 32, 1, 7 * 32, 32}));
  EXPECT_EQ(shape_of(p, CudnnTensor::y).strides, (List{5 * 4 * 64, 1, 4 * 64, 64}));
  EXPECT_EQ(shape_of(p, CudnnTensor::x).dimensions, shape_of(plane(), CudnnTensor::x).dimensions);
  EXPECT_EQ(span_of(p, CudnnTensor::x), (3 * 5 * 7 - 1) * 32 + 24);
}

TEST(cudnn_shape, the_result_alone_may_be_fp32) {
  CudnnConvolution p = plane();
  p.result = DType::fp32;
  p.conv.op = ConvOp::wgrad;
  EXPECT_EQ(type_of(p, CudnnTensor::w), DType::fp32);
  EXPECT_EQ(type_of(p, CudnnTensor::x), DType::bf16);
  EXPECT_EQ(type_of(p, CudnnTensor::y), DType::bf16);
  p.conv.op = ConvOp::dgrad;
  EXPECT_EQ(type_of(p, CudnnTensor::x), DType::fp32);
  p.conv.op = ConvOp::fprop;
  EXPECT_EQ(type_of(p, CudnnTensor::y), DType::fp32);
}

TEST(cudnn_shape, what_cannot_be_is_refused) {
  EXPECT_TRUE(check(plane()));
  const auto refused = [](auto change) {
    CudnnConvolution p = plane();
    change(p);
    return !check(p);
  };
  EXPECT_TRUE(refused([](CudnnConvolution& p) { p.conv.op = ConvOp::none; }));
  EXPECT_TRUE(refused([](CudnnConvolution& p) { p.conv.channels = 0; }));
  EXPECT_TRUE(refused([](CudnnConvolution& p) { p.conv.spatial = 4; }));
  EXPECT_TRUE(refused([](CudnnConvolution& p) { p.conv.stride.h = 0; }));
  EXPECT_TRUE(refused([](CudnnConvolution& p) { p.conv.padding_after.w = -1; }));
  // Larger than the 5 + 1 pixels with padding.
  EXPECT_TRUE(refused([](CudnnConvolution& p) { p.conv.filter.h = 7; }));
  EXPECT_FALSE(refused([](CudnnConvolution& p) { p.conv.filter.h = 6; }));
  EXPECT_TRUE(refused([](CudnnConvolution& p) { p.conv.x_pitch = 23; }));
  EXPECT_TRUE(refused([](CudnnConvolution& p) { p.inputs = DType::e4m3; }));
  EXPECT_TRUE(refused([](CudnnConvolution& p) { p.result = DType::fp16; }));
}

}  // namespace
}  // namespace sluice::bench
