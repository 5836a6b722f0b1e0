// SPDX-License-Identifier: Apache-2.0
// Compares the reference of convolutions with sums computed by hand, with shifts (a filter with a single
// one), and with itself: dgrad and wgrad are the adjoints of fprop. To see it fail: change the padding's sign
// in in_x(), count taps h before w, or leave out dgrad's pitch.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <sluice/reference/conv.h>
#include <sluice/reference/element.h>
#include <sluice/reference/gemm.h>

namespace sluice {
namespace {

using Floats = std::vector<float>;

Problem product_for(const Conv& conv, ConvOp op) {
  Problem p{.a = {.type = DType::fp32}, .b = {.type = DType::fp32}, .d = {.type = DType::fp32}};
  p.conv = conv;
  p.conv.op = op;
  return p;
}
Floats run(const Conv& conv, ConvOp op, const Floats& a, const Floats& b, size_t results) {
  Floats d(results, std::numeric_limits<float>::quiet_NaN());
  reference_conv(product_for(conv, op), {.a = a.data(), .b = b.data(), .d = d.data()}, 1.0f, 0.0f);
  return d;
}

/// Returns a convolution along one axis, with one channel and one filter.
Conv line(int size, int filter) {
  return {
      .spatial = 1, .images = 1, .channels = 1, .filters = 1, .size = {size, 1, 1}, .filter = {filter, 1, 1}};
}

TEST(reference_conv, is_what_one_writes_by_hand) {
  const Floats x{1, 2, 3, 4, 5}, w{10, 1, 100};
  EXPECT_EQ(run(line(5, 3), ConvOp::fprop, x, w, 3), (Floats{312, 423, 534}));

  Conv padded = line(5, 3);
  padded.padding.w = 2;  // zeros only before x
  EXPECT_EQ(run(padded, ConvOp::fprop, x, w, 5), (Floats{100, 201, 312, 423, 534}));
  padded.padding.w = 0, padded.padding_after.w = 1;
  EXPECT_EQ(run(padded, ConvOp::fprop, x, w, 4), (Floats{312, 423, 534, 45}));

  Conv strided = line(5, 3);
  strided.stride.w = 2;
  strided.padding = strided.padding_after = {1, 0, 0};
  EXPECT_EQ(run(strided, ConvOp::fprop, x, w, 3), (Floats{201, 423, 45}));
  EXPECT_EQ(run(strided, ConvOp::dgrad, {1, 2, 3}, w, 5), (Floats{1, 120, 2, 230, 3}));
  EXPECT_EQ(run(strided, ConvOp::wgrad, {1, 2, 3}, x, 3),
            (Floats{2 * 2 + 3 * 4, 1 + 2 * 3 + 3 * 5, 2 + 2 * 4}));

  Conv dilated = line(5, 2);
  dilated.dilation.w = 3;
  EXPECT_EQ(run(dilated, ConvOp::fprop, x, {10, 1}, 2), (Floats{14, 25}));
  EXPECT_EQ(run(dilated, ConvOp::dgrad, {1, 2}, {10, 1}, 5), (Floats{10, 20, 0, 1, 2}));
}

TEST(reference_conv, leaves_zeros_where_a_stride_passes_over_pixels) {
  Conv conv = line(7, 2);
  conv.stride.w = 3;
  EXPECT_EQ(run(conv, ConvOp::dgrad, {1, 2}, {10, 1}, 7), (Floats{10, 1, 0, 20, 2, 0, 0}));
}

/// In x and y, channels are contiguous, then w, h, d and images follow. In the filter: channels, w, h, d,
/// filters.
TEST(reference_conv, finds_channels_axes_and_images_where_they_lie) {
  const Conv conv{
      .spatial = 2, .images = 2, .channels = 2, .filters = 1, .size = {3, 2, 1}, .filter = {2, 1, 1}};
  Floats x(24), w{1, 10, 100, 1000};
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const Floats y = run(conv, ConvOp::fprop, x, w, 8);
  for (int image = 0; image < 2; ++image)
    for (int h = 0; h < 2; ++h)
      for (int q = 0; q < 2; ++q) {
        const float first = static_cast<float>(image * 12 + h * 6 + q * 2);
        EXPECT_EQ(y[static_cast<size_t>(image * 4 + h * 2 + q)],
                  first + 10 * (first + 1) + 100 * (first + 2) + 1000 * (first + 3));
      }
}

struct RandomConv {
  std::mt19937 random;
  explicit RandomConv(unsigned seed) : random(seed) {}

  int pick(int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  }
  Axes axes(int spatial, int low, int high) {
    Axes a{pick(low, high), pick(low, high), pick(low, high)};
    if (spatial < 3) a.d = low;
    if (spatial < 2) a.h = low;
    return a;
  }
  Conv conv() {
    for (;;) {
      const int spatial = pick(1, 3);
      Conv v{.spatial = spatial, .images = pick(1, 3), .channels = pick(1, 5), .filters = pick(1, 5)};
      v.size = axes(spatial, 1, 7);
      v.filter = axes(spatial, 1, 3);
      v.stride = axes(spatial, 1, 3);
      v.dilation = axes(spatial, 1, 3);
      v.padding = axes(spatial, 0, 2);
      v.padding_after = axes(spatial, 0, 2);
      if (pick(0, 1) == 1) v.x_pitch = v.channels + 3, v.y_pitch = v.filters + 2;
      if (y_pixels(v) > 0) return v;
    }
  }
  /// Returns `rows` of `channels` small whole numbers, `pitch` elements apart, with NaN in the gaps.
  Floats tensor(i64 rows, i64 channels, i64 pitch) {
    Floats t(static_cast<size_t>((rows - 1) * pitch + channels), std::numeric_limits<float>::quiet_NaN());
    for (i64 row = 0; row < rows; ++row)
      for (i64 c = 0; c < channels; ++c)
        t[static_cast<size_t>(row * pitch + c)] = static_cast<float>(pick(-4, 4));
    return t;
  }
};

double dot(const Floats& a, const Floats& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (!std::isnan(a[i]) || !std::isnan(b[i])) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

TEST(reference_conv, has_gradients_that_are_adjoint_to_it) {
  RandomConv make(7);
  double largest = 0;
  for (int round = 0; round < 500; ++round) {
    const Conv v = make.conv();
    const Floats x = make.tensor(x_pixels(v), v.channels, x_pitch_of(v));
    const Floats dy = make.tensor(y_pixels(v), v.filters, y_pitch_of(v));
    const Floats w = make.tensor(v.filters * taps_of(v), v.channels, v.channels);
    const double product = dot(run(v, ConvOp::fprop, x, w, dy.size()), dy);
    ASSERT_EQ(dot(run(v, ConvOp::dgrad, dy, w, x.size()), x), product) << "round " << round;
    ASSERT_EQ(dot(run(v, ConvOp::wgrad, dy, x, w.size()), w), product) << "round " << round;
    largest = std::max(largest, std::fabs(product));
  }
  EXPECT_GT(largest, 100) << "the products say something";
}

/// A filter that is 1 at one tap and 0 elsewhere shifts x.
TEST(reference_conv, moves_x_by_a_tap) {
  RandomConv make(8);
  for (int round = 0; round < 200; ++round) {
    Conv v = make.conv();
    v.images = 1, v.channels = v.filters = 1, v.x_pitch = v.y_pitch = 0;
    const Floats x = make.tensor(x_pixels(v), 1, 1);
    const Axes tap{make.pick(0, v.filter.w - 1), make.pick(0, v.filter.h - 1), make.pick(0, v.filter.d - 1)};
    Floats w(static_cast<size_t>(taps_of(v)));
    w[static_cast<size_t>((tap.d * v.filter.h + tap.h) * v.filter.w + tap.w)] = 1;
    const Axes out{output_size(v, 0), output_size(v, 1), output_size(v, 2)};
    const Floats y = run(v, ConvOp::fprop, x, w, static_cast<size_t>(y_pixels(v)));
    for (int d = 0; d < out.d; ++d)
      for (int h = 0; h < out.h; ++h)
        for (int q = 0; q < out.w; ++q) {
          const int at_w = q * v.stride.w - v.padding.w + tap.w * v.dilation.w;
          const int at_h = h * v.stride.h - v.padding.h + tap.h * v.dilation.h;
          const int at_d = d * v.stride.d - v.padding.d + tap.d * v.dilation.d;
          const bool inside =
              at_w >= 0 && at_w < v.size.w && at_h >= 0 && at_h < v.size.h && at_d >= 0 && at_d < v.size.d;
          const float expected =
              inside ? x[static_cast<size_t>((at_d * v.size.h + at_h) * v.size.w + at_w)] : 0.0f;
          ASSERT_EQ(y[static_cast<size_t>((d * out.h + h) * out.w + q)], expected) << "round " << round;
        }
  }
}

TEST(reference_conv, ends_as_a_product_does) {
  const Conv conv = line(3, 1);
  Problem p = product_for(conv, ConvOp::fprop);
  p.d.type = DType::bf16;
  p.epilogue = {.scale_a = ScaleMode::tensor,
                .scale_b = ScaleMode::vector,
                .bias = Bias::column,
                .bias_type = DType::fp32,
                .activation = Activation::relu,
                .residual = true,
                .c_type = DType::fp32};
  const Floats x{1, -2, 300}, w{2}, scale_x{3}, scale_w{0.5f}, bias{7}, c{10, 20, 1};
  u16 d[3] = {};
  const HostBuffers buffers{.a = x.data(),
                            .b = w.data(),
                            .c = c.data(),
                            .d = d,
                            .scale_a = scale_x.data(),
                            .scale_b = scale_w.data(),
                            .bias = bias.data()};
  reference_gemm(p, buffers, 2.0f, -1.0f);  // calls reference_conv()
  const double expected[] = {6 - 10 + 7, 0, 1800 - 1 + 7};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(d[i], encode_code(DType::bf16, expected[i]));
  reference_conv(p, {.c = c.data(), .d = d, .bias = bias.data()}, 0.0f, 1.0f);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(load_element(DType::bf16, d, i), c[static_cast<size_t>(i)] + 7);
}

TEST(reference_conv, adds_a_gradient_to_what_is_there) {
  Problem p = product_for(line(3, 2), ConvOp::wgrad);
  p.epilogue.update = Update::add;
  const Floats dy{1, 2}, x{3, 4, 5};
  Floats dw{100, 200};
  reference_conv(p, {.a = dy.data(), .b = x.data(), .d = dw.data()}, 2.0f, 0.0f);
  EXPECT_EQ(dw, (Floats{100 + 2 * 11, 200 + 2 * 14}));
  reference_conv(p, {.d = dw.data()}, 0.0f, 0.0f);
  EXPECT_EQ(dw, (Floats{122, 228}));
}

TEST(reference_conv, sums_magnitudes_for_bounds) {
  const Floats x{1, -2, 3}, w{-1, 1};
  const Problem p = product_for(line(3, 2), ConvOp::fprop);
  const HostBuffers buffers{.a = x.data(), .b = w.data()};
  EXPECT_EQ(conv_sums(p, buffers), (std::vector<double>{-3, 5}));
  EXPECT_EQ(conv_magnitudes(p, buffers), (std::vector<double>{3, 5}));
}

}  // namespace
}  // namespace sluice
