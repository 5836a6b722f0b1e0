// SPDX-License-Identifier: Apache-2.0
// A convolution as cuDNN's descriptors state it: dimensions in torch's order, channels-last strides, axes
// outermost first.
#include <gtest/gtest.h>

#include "bench/contender/cudnn_problem.h"

namespace sluice::bench {
namespace {

using List = std::vector<i64>;

/// 5 x 7 pixels (h x w) of 24 channels to 40, filter 2 x 3 (h x w), strides 1 x 2, asymmetric padding.
CudnnConvolution plane() {
  CudnnConvolution p{.spatial = 2, .n = 3, .c = 24, .k = 40};
  p.size[0] = 7, p.size[1] = 5;
  p.filter[0] = 3, p.filter[1] = 2;
  p.stride[0] = 2, p.stride[1] = 1;
  p.dilation[0] = 2;
  p.pad[0] = 1, p.pad_after[0] = 4;
  p.pad_after[1] = 1;
  return p;
}

TEST(cudnn_shape, planes_are_channels_last) {
  const CudnnConvolution p = plane();
  EXPECT_EQ(output_size(p, 0), (7 + 1 + 4 - 5) / 2 + 1);
  EXPECT_EQ(output_size(p, 1), 5);
  const CudnnShape x = shape_of(p, CudnnTensor::x), w = shape_of(p, CudnnTensor::w),
                   y = shape_of(p, CudnnTensor::y);
  EXPECT_EQ(x.dimensions, (List{3, 24, 5, 7}));
  EXPECT_EQ(x.strides, (List{5 * 7 * 24, 1, 7 * 24, 24}));
  EXPECT_EQ(w.dimensions, (List{40, 24, 2, 3}));
  EXPECT_EQ(w.strides, (List{2 * 3 * 24, 1, 3 * 24, 24}));
  EXPECT_EQ(y.dimensions, (List{3, 40, 5, 4}));
  EXPECT_EQ(y.strides, (List{5 * 4 * 40, 1, 4 * 40, 40}));
  EXPECT_EQ(elements_of(p, CudnnTensor::x), 3 * 5 * 7 * 24);
  EXPECT_EQ(elements_of(p, CudnnTensor::w), 40 * 6 * 24);
  EXPECT_EQ(elements_of(p, CudnnTensor::y), 3 * 5 * 4 * 40);
  EXPECT_EQ(products_of(p), 3.0 * 5 * 4 * 6 * 24 * 40);
}

TEST(cudnn_shape, lists_begin_at_the_outermost_axis) {
  const CudnnConvolution p = plane();
  EXPECT_EQ(outermost_first(p, p.stride), (List{1, 2}));
  EXPECT_EQ(outermost_first(p, p.dilation), (List{1, 2}));
  EXPECT_EQ(outermost_first(p, p.pad), (List{0, 1}));
  EXPECT_EQ(outermost_first(p, p.pad_after), (List{1, 4}));
}

TEST(cudnn_shape, one_axis_is_two_for_cudnn_and_three_are_three) {
  CudnnConvolution line{.spatial = 1, .n = 2, .c = 8, .k = 16};
  line.size[0] = 100, line.filter[0] = 31, line.pad[0] = line.pad_after[0] = 15;
  EXPECT_EQ(shape_of(line, CudnnTensor::x).dimensions, (List{2, 8, 1, 100}));
  EXPECT_EQ(shape_of(line, CudnnTensor::x).strides, (List{800, 1, 800, 8}));
  EXPECT_EQ(shape_of(line, CudnnTensor::w).dimensions, (List{16, 8, 1, 31}));
  EXPECT_EQ(outermost_first(line, line.pad), (List{0, 15}));
  CudnnConvolution room{.spatial = 3, .n = 1, .c = 96, .k = 64};
  room.size[0] = 9, room.size[1] = 8, room.size[2] = 7;
  room.filter[2] = 3, room.pad[2] = 2;
  EXPECT_EQ(shape_of(room, CudnnTensor::x).dimensions, (List{1, 96, 7, 8, 9}));
  EXPECT_EQ(shape_of(room, CudnnTensor::x).strides, (List{7 * 8 * 9 * 96, 1, 8 * 9 * 96, 9 * 96, 96}));
  EXPECT_EQ(shape_of(room, CudnnTensor::w).dimensions, (List{64, 96, 3, 1, 1}));
  EXPECT_EQ(outermost_first(room, room.pad), (List{2, 0, 0}));
}

TEST(cudnn_shape, the_result_alone_may_be_fp32) {
  CudnnConvolution p = plane();
  p.result = DType::fp32;
  p.op = CudnnConvolution::Op::wgrad;
  EXPECT_EQ(type_of(p, CudnnTensor::w), DType::fp32);
  EXPECT_EQ(type_of(p, CudnnTensor::x), DType::bf16);
  EXPECT_EQ(type_of(p, CudnnTensor::y), DType::bf16);
  p.op = CudnnConvolution::Op::dgrad;
  EXPECT_EQ(type_of(p, CudnnTensor::x), DType::fp32);
  p.op = CudnnConvolution::Op::fprop;
  EXPECT_EQ(type_of(p, CudnnTensor::y), DType::fp32);
}

TEST(cudnn_shape, what_cannot_be_is_refused) {
  EXPECT_TRUE(check(plane()));
  const auto refused = [](auto change) {
    CudnnConvolution p = plane();
    change(p);
    return !check(p);
  };
  EXPECT_TRUE(refused([](CudnnConvolution& p) { p.c = 0; }));
  EXPECT_TRUE(refused([](CudnnConvolution& p) { p.spatial = 4; }));
  EXPECT_TRUE(refused([](CudnnConvolution& p) { p.stride[1] = 0; }));
  EXPECT_TRUE(refused([](CudnnConvolution& p) { p.pad_after[0] = -1; }));
  EXPECT_TRUE(refused([](CudnnConvolution& p) { p.filter[1] = 7; }));  // 5 + 1 pixels
  EXPECT_FALSE(refused([](CudnnConvolution& p) { p.filter[1] = 6; }));
  EXPECT_TRUE(refused([](CudnnConvolution& p) { p.inputs = DType::e4m3; }));
  EXPECT_TRUE(refused([](CudnnConvolution& p) { p.result = DType::fp16; }));
}

}  // namespace
}  // namespace sluice::bench
