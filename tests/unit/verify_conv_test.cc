// SPDX-License-Identifier: Apache-2.0
// The verifier on convolutions. Its kernels run on simulated threads over host memory, and the reference,
// which has its own arithmetic, replaces the convolution's kernel. Right results pass, each kind of damage is
// found, and shifted results count as wrong. To see it fail: ignore a stride's remainder in y_element(),
// decode taps by y's size, or let lay_out() allocate m x k elements of x.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include <sluice/reference/element.h>
#include <sluice/spec/conv_problem.h>

#include "simulated_problem.h"

namespace sluice {
namespace {

using test::HostData;

Conv random_conv(u64 seed, ConvOp op) {
  const auto pick = [&](int field, int low, int high) {
    return low + verify::pick(verify::hash(seed, field), high - low + 1);
  };
  Conv v{.op = op, .spatial = 1 + static_cast<int>(seed % 3), .images = pick(0, 1, 2)};
  v.channels = 8 * pick(1, 1, 3);
  v.filters = 8 * pick(2, 1, 3);
  const auto axes = [&](int field, int otherwise, int low, int high) {
    return Axes{pick(field, low, high), v.spatial > 1 ? pick(field + 1, low, high) : otherwise,
                v.spatial > 2 ? pick(field + 2, low, high) : otherwise};
  };
  v.filter = axes(10, 1, 1, v.spatial == 3 ? 2 : 3);
  v.stride = axes(20, 1, 1, 2);
  v.dilation = axes(30, 1, 1, 2);
  v.padding = axes(40, 0, 0, 2);
  v.padding_after = axes(50, 0, 0, 2);
  v.size = axes(60, 1, 1, v.spatial == 3 ? 3 : 5);
  for (int axis = 0; axis < v.spatial; ++axis)
    if (output_size(v, axis) == 0) v.padding_after = {4, v.spatial > 1 ? 4 : 0, v.spatial > 2 ? 4 : 0};
  if (pick(3, 0, 1) == 1) v.x_pitch = v.channels + 8, v.y_pitch = v.filters + 24;
  v.padding.w += is_pointwise(v);  // padding, because a pointwise convolution would be a plain product
  return v;
}

Problem random_problem(u64 seed, ConvOp op) {
  const DType inputs[] = {DType::bf16, DType::fp16, DType::e4m3};
  const DType outputs[] = {DType::bf16, DType::fp32, DType::fp16};
  Epilogue epilogue;
  if (op == ConvOp::fprop)
    epilogue = {.scale_a = seed % 2 ? ScaleMode::tensor : ScaleMode::none,
                .scale_b = seed % 3 ? ScaleMode::vector : ScaleMode::none,
                .bias = seed % 2 ? Bias::column : Bias::none,
                .activation = seed % 4 == 1 ? Activation::relu : Activation::none,
                .residual = seed % 5 < 2};
  if (op == ConvOp::wgrad && seed % 3 == 1) epilogue.update = Update::add;
  Problem p = product_of_conv(random_conv(seed, op), inputs[seed % (op == ConvOp::fprop ? 3 : 2)],
                              epilogue.update == Update::add ? DType::fp32 : outputs[seed % 3], epilogue);
  p.accumulate = static_cast<Accumulate>(seed / 3 % 2);
  return p;
}

constexpr ConvOp kOps[] = {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad};

TEST(verify_conv, passes_exact_results_of_the_reference) {
  for (const ConvOp op : kOps)
    for (u64 seed = 0; seed < 8; ++seed) {
      const Problem p = random_problem(seed, op);
      HostData data(p, exact_data(p, seed));
      EXPECT_EQ(data.check(Judge::unwritten).wrong, 0u);
      data.multiply();
      const CheckLog log = data.check(Judge::exact);
      const Problem judged = verify::judged_problem(p);
      ASSERT_EQ(log.wrong, 0u) << name_of(op) << " seed " << seed << ": expected " << log.elements[0].expected
                               << ", got " << log.elements[0].got << " at row " << log.elements[0].row
                               << " of " << judged.m << ", column " << log.elements[0].column << " of "
                               << judged.n;
      ASSERT_EQ(log.damaged_chunks + log.inexact_inputs, 0u) << name_of(op) << " seed " << seed;
      ASSERT_EQ(log.checked, static_cast<u64>(judged.m * judged.n));
    }
}

TEST(verify_conv, passes_real_results_of_the_reference) {
  for (const ConvOp op : kOps)
    for (u64 seed = 20; seed < 23; ++seed) {
      Problem p = random_problem(seed, op);
      if (op == ConvOp::fprop) p.epilogue.activation = static_cast<Activation>(seed % 4);
      HostData data(p, real_data(p, seed));
      data.multiply();
      const CheckLog log = data.check(Judge::bounded);
      ASSERT_EQ(log.wrong + log.damaged_chunks, 0u) << name_of(op) << " seed " << seed;
      ASSERT_LE(std::bit_cast<double>(log.worst_ratio_bits), 1.0);
    }
}

/// Returns 2 images of 5 x 4 pixels of 16 channels, 24 elements apart; a 3 x 2 filter with stride 2 x 1.
Problem strided(ConvOp op) {
  return product_of_conv({.op = op,
                          .images = 2,
                          .channels = 16,
                          .filters = 8,
                          .size = {5, 4, 1},
                          .filter = {3, 2, 1},
                          .stride = {2, 1, 1},
                          .padding = {1, 0, 0},
                          .padding_after = {0, 1, 0},
                          .x_pitch = 24},
                         DType::bf16, DType::fp32);
}

TEST(verify_conv, names_the_pixel_that_is_wrong_where_it_lies_in_memory) {
  const Problem p = strided(ConvOp::dgrad);
  HostData data(p, exact_data(p, 3));
  data.multiply();
  reinterpret_cast<float*>(data.operand(kRegionD))[37 * 24 + 9] += 1;  // pixel 37 of 40
  const CheckLog log = data.check(Judge::exact);
  EXPECT_EQ(log.wrong, 1u);
  EXPECT_EQ(log.elements[0].row, 37);
  EXPECT_EQ(log.elements[0].column, 9);
  EXPECT_EQ(log.damaged_chunks, 0u);
}

TEST(verify_conv, sees_pixels_that_nobody_wrote) {
  const Problem p = strided(ConvOp::dgrad);
  HostData data(p, exact_data(p, 3));
  data.multiply();
  // As if the kernel had left out this pixel.
  std::memset(data.operand(kRegionD) + 24 * 4 * 11, 0xff, 16 * 4);
  const CheckLog log = data.check(Judge::exact);
  EXPECT_EQ(log.wrong, 16u);
  EXPECT_EQ(log.unwritten, 16u);
}

TEST(verify_conv, finds_damage_between_pixels_and_around_tensors) {
  const auto damaged = [&](ConvOp op, int region, i64 byte) {
    const Problem p = strided(op);
    HostData data(p, exact_data(p, 2));
    data.multiply();
    data.operand(region)[byte] ^= 1;
    return data.check(Judge::exact).damaged_chunks;
  };
  EXPECT_EQ(damaged(ConvOp::dgrad, kRegionD, 16 * 4), 1u) << "behind the channels of dx's first pixel";
  EXPECT_EQ(damaged(ConvOp::dgrad, kRegionD, 24 * 4 * 39 + 16 * 4), 1u) << "behind dx";
  EXPECT_EQ(damaged(ConvOp::wgrad, kRegionD, 8 * 6 * 16 * 4), 1u)
      << "behind dw, which has no padded channels";
  EXPECT_EQ(damaged(ConvOp::wgrad, kRegionD, -1), 1u);
  EXPECT_EQ(damaged(ConvOp::fprop, 0, 16 * 2), 1u) << "between x's pixels";
  EXPECT_EQ(damaged(ConvOp::fprop, 0, 24 * 2 * 39), 1u) << "x's last pixel";
  EXPECT_EQ(damaged(ConvOp::wgrad, 0, 0), 1u) << "dy";
  EXPECT_EQ(damaged(ConvOp::wgrad, 1, 24 * 2), 1u) << "x's second pixel";
  EXPECT_EQ(damaged(ConvOp::fprop, 1, 8 * 6 * 16 * 2), 1u) << "behind w";
}

/// NaN is stored between pixels, so a sum that includes it is NaN.
TEST(verify_conv, fills_what_must_not_be_read_with_poison) {
  const Problem p = strided(ConvOp::fprop);
  HostData data(p, exact_data(p, 2));
  for (i64 pixel = 0; pixel < 39; ++pixel)
    for (i64 c = 0; c < 24; ++c) {
      const u16 bits = reinterpret_cast<const u16*>(data.operand(0))[pixel * 24 + c];
      EXPECT_EQ(bits == 0xffff, c >= 16) << "pixel " << pixel << ", element " << c;
    }
  EXPECT_EQ(reinterpret_cast<const u16*>(data.operand(0))[-1], 0xffff);
  EXPECT_EQ(reinterpret_cast<const u16*>(data.operand(0))[39 * 24 + 16], 0xffff);
}

/// The results of similar convolutions must be wrong: another padding or dilation, or reversed taps.
TEST(verify_conv, does_not_take_a_neighbour_for_right) {
  for (const ConvOp op : kOps)
    for (int change = 0; change < 4; ++change) {
      const Problem p = strided(op);
      HostData data(p, exact_data(p, 4));
      Conv& v = data.problem.conv;
      if (change == 0) v.padding.w = 0, v.padding_after.w = 1;
      if (change == 1) v.padding.h = 1, v.padding_after.h = 0;
      if (change == 2) v.dilation.h = 2, v.padding_after.h = 2;
      if (change == 3) v.filter = {2, 3, 1}, v.padding.w = 0, v.padding_after.h = 2;
      data.multiply();
      data.problem = p;
      const CheckLog log = data.check(Judge::exact);
      EXPECT_GT(log.wrong, 60u) << name_of(op) << ", change " << change;
    }
}

TEST(verify_conv, knows_the_gradient_to_which_one_was_added) {
  Problem p = strided(ConvOp::wgrad);
  p.epilogue.update = Update::add;
  HostData once(p, exact_data(p, 5)), twice(p, exact_data(p, 5)), never(p, exact_data(p, 5));
  once.multiply();
  EXPECT_EQ(once.check(Judge::exact).wrong, 0u);
  twice.multiply();
  twice.multiply();
  EXPECT_GT(twice.check(Judge::exact).wrong, 500u);
  EXPECT_GT(never.check(Judge::exact).wrong, 500u);
}

/// ResNet-50's largest layer. Memory is allocated for the tensors; m x k elements of x would take 1.9 GB.
TEST(verify_conv, takes_the_memory_of_the_tensors) {
  const Conv v{.op = ConvOp::fprop,
               .images = 32,
               .channels = 64,
               .filters = 64,
               .size = {56, 56, 1},
               .filter = {3, 3, 1},
               .padding = {1, 1, 0},
               .padding_after = {1, 1, 0}};
  const i64 tensors = (2 * 32 * 56 * 56 * 64 + 64 * 9 * 64) * 2,
            guards = kRegionCount * (2 * kGuardBytes + 2 * kRegionAlign);
  const i64 bytes = data_bytes(product_of_conv(v, DType::bf16, DType::bf16), {});
  EXPECT_GE(bytes, tensors);
  EXPECT_LE(bytes, tensors + guards);
}

}  // namespace
}  // namespace sluice
