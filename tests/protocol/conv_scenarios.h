// SPDX-License-Identifier: Apache-2.0
// Small convolutions for the twin: data, plans made without the planner, and the scenarios of these plans.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include <sluice/reference/conv.h>
#include <sluice/spec/conv_problem.h>
#include <sluice/twin/explore.h>
#include <sluice/twin/recording.h>

#include "operands.h"

namespace sluice::twin {

/// A convolution, the kernel for it, and the division of its tiles among clusters.
struct ConvCase {
  Conv conv{};
  KernelConfig config{};  // types, layouts and conv are filled in from the other members
  DType inputs = DType::bf16, output = DType::fp32;
  Epilogue epilogue{};
  int clusters = 2;
  int slices = 1;
  float alpha = 1, beta = 0;
};

inline Problem problem_of(const ConvCase& c) {
  Problem p = product_of_conv(c.conv, c.inputs, c.output, c.epilogue);
  p.deterministic = c.config.combine != Combine::add;
  EXPECT_TRUE(is_conv(p.conv)) << "lowered to a plain product";
  return p;
}
inline Plan plan_of(const ConvCase& c) {
  return sliced(plan_of(problem_of(c), c.config, c.clusters), c.slices);
}
inline Scenario scenario_of(const ConvCase& c) {
  const Plan plan = plan_of(c);
  const Problem& p = plan.problem;
  return {.config = plan.config,
          .m = static_cast<int>(p.m),
          .n = static_cast<int>(p.n),
          .k = static_cast<int>(p.k),
          .batch = static_cast<int>(p.batch),
          .split = plan.split,
          .conv = p.conv};
}

inline std::string text_of(const ConvCase& c) {
  const Conv& v = c.conv;
  const auto axes = [](const Axes& a) {
    return std::to_string(a.w) + "," + std::to_string(a.h) + "," + std::to_string(a.d);
  };
  return std::string(name_of(v.op)) + " of " + std::to_string(v.images) + " images, size " + axes(v.size) +
         " filter " + axes(v.filter) + " stride " + axes(v.stride) + " dilation " + axes(v.dilation) +
         " padding " + axes(v.padding) + " " + axes(v.padding_after) + " channels " +
         std::to_string(v.channels) + " filters " + std::to_string(v.filters) + ", tile " +
         std::to_string(c.config.tile.m) + "x" + std::to_string(c.config.tile.n) + " cluster " +
         std::to_string(c.config.cluster.m) + "x" + std::to_string(c.config.cluster.n) + "x" +
         std::to_string(c.config.cluster.k) + " slices " + std::to_string(c.slices) + " clusters " +
         std::to_string(c.clusters);
}

/// Returns whole numbers, with NaN in the gaps between pixels if the tensor has a pitch.
inline std::vector<u8> pixels(DType type, i64 count, i64 channels, i64 pitch, u32 seed) {
  std::vector<u8> data = whole_numbers(type, count * pitch, seed);
  for (i64 i = 0; i < count; ++i)
    for (i64 c = channels; c < pitch; ++c)
      store_element(type, data.data(), i * pitch + c, std::numeric_limits<double>::quiet_NaN());
  return data;
}

/// Runs `c` in the twin and compares D, gaps included, with the reference. D starts as NaN, or as whole
/// numbers if the product is added to it.
inline TwinReport expect_equals_reference(const ConvCase& c, u64 seed = 7) {
  SCOPED_TRACE(text_of(c));
  const Plan plan = plan_of(c);
  const Problem& p = plan.problem;
  const Conv& v = p.conv;
  std::vector<u8> x = pixels(c.inputs, x_pixels(v), v.channels, x_pitch_of(v), 1),
                  y = pixels(c.inputs, y_pixels(v), v.filters, y_pitch_of(v), 2),
                  w = whole_numbers(c.inputs, filter_elements(v), 3);
  const i64 d_elements = v.op == ConvOp::fprop   ? y_pixels(v) * y_pitch_of(v)
                         : v.op == ConvOp::dgrad ? x_pixels(v) * x_pitch_of(v)
                                                 : filter_elements(v);
  std::vector<u8> d(static_cast<size_t>(d_elements * bytes_of(c.output)), 0xff);
  if (adds(c.epilogue)) d = whole_numbers(c.output, d_elements, 4);
  std::vector<u8> expected = d, residual = whole_numbers(c.epilogue.c_type, d_elements, 5),
                  bias = whole_numbers(c.epilogue.bias_type, p.n, 6);
  std::vector<float> scale_a(static_cast<size_t>(p.m), 2.0f), scale_b(static_cast<size_t>(p.n), 0.5f);
  HostBuffers buffers{.a = v.op == ConvOp::fprop ? x.data() : y.data(),
                      .b = v.op == ConvOp::wgrad ? x.data() : w.data(),
                      .c = residual.data(),
                      .d = d.data(),
                      .scale_a = scale_a.data(),
                      .scale_b = scale_b.data(),
                      .bias = bias.data()};
  const auto report = run_on_host(plan, buffers, c.alpha, c.beta, seed);
  EXPECT_TRUE(report.ok()) << report.error().message;
  if (!report) return {};
  buffers.d = expected.data();
  reference_conv(p, buffers, c.alpha, c.beta);
  EXPECT_EQ(std::memcmp(d.data(), expected.data(), d.size()), 0) << "D differs from the reference";
  return *report;
}

/// Returns a convolution along 1 to 3 axes with odd sizes, asymmetric padding, a stride and a dilation. Its
/// channels are not whole blocks, and pixels have gaps between them.
inline Conv odd_conv(ConvOp op, int spatial) {
  Conv v{.op = op, .spatial = spatial, .images = 2, .channels = 72, .filters = 40};
  v.size = {11, spatial > 1 ? 6 : 1, spatial > 2 ? 3 : 1};
  v.filter = {3, spatial > 1 ? 2 : 1, spatial > 2 ? 2 : 1};
  v.stride = {1, spatial > 1 ? 2 : 1, 1};
  v.dilation = {2, 1, 1};
  v.padding = {2, spatial > 1 ? 1 : 0, 0};
  v.padding_after = {1, 0, spatial > 2 ? 1 : 0};
  v.x_pitch = 80;
  v.y_pitch = 48;
  if (spatial == 1) v.images = 9;
  return v;
}

constexpr KernelConfig kSmallPingPong{
    .schedule = Schedule::ping_pong, .tile = {.m = 64, .n = 64}, .stages = 3};
constexpr KernelConfig kSmallCooperative{
    .schedule = Schedule::cooperative, .tile = {.m = 128, .n = 64}, .stages = 3};

}  // namespace sluice::twin
