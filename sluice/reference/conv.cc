// SPDX-License-Identifier: Apache-2.0
// See conv.h. Tensors are decoded once. Loops over images, the three axes of y and the three of the filter
// find each (pixel of x, tap, pixel of y); the innermost loops run over channels.
#include <sluice/reference/conv.h>

#include <cmath>

#include <sluice/reference/element.h>

namespace sluice {
namespace {

/// A position along the three axes, innermost first.
struct Place3 {
  i64 w = 0, h = 0, d = 0;
};
i64 number_of(const Place3& at, const Place3& size) {
  return (at.d * size.h + at.h) * size.w + at.w;
}
i64 count_of(const Place3& size) {
  return size.w * size.h * size.d;
}
Place3 places(const Axes& axes) {
  return {axes.w, axes.h, axes.d};
}
/// Calls `visit` with every position inside `size`, in memory order.
template <class Visit>
void for_each_place(const Place3& size, const Visit& visit) {
  for (i64 d = 0; d < size.d; ++d)
    for (i64 h = 0; h < size.h; ++h)
      for (i64 w = 0; w < size.w; ++w) visit(Place3{w, h, d});
}

/// Returns the length of y along an axis: the number of positions, `stride` apart, at which the filter fits
/// into padded x.
i64 length_of_y(const Conv& v, int axis) {
  const i64 end = i64{v.size[axis]} + v.padding_after[axis];
  i64 count = 0, last_tap = -i64{v.padding[axis]} + i64{v.filter[axis] - 1} * v.dilation[axis];
  for (; last_tap < end; last_tap += v.stride[axis]) ++count;
  return count;
}
Place3 size_of_y(const Conv& v) {
  return {length_of_y(v, 0), length_of_y(v, 1), length_of_y(v, 2)};
}
i64 in_x(const Conv& v, int axis, i64 y, i64 tap) {
  return y * v.stride[axis] - v.padding[axis] + tap * v.dilation[axis];
}

/// A tensor of `rows` x `channels` doubles, packed.
struct Decoded {
  std::vector<double> values;
  i64 channels = 0;

  Decoded(DType type, const void* data, i64 rows, i64 row_channels, i64 pitch) : channels(row_channels) {
    values.reserve(static_cast<size_t>(rows * channels));
    for (i64 row = 0; row < rows; ++row)
      for (i64 c = 0; c < channels; ++c) values.push_back(load_element(type, data, row * pitch + c));
  }
  const double* row(i64 index) const { return values.data() + index * channels; }
  void take_magnitudes() {
    for (double& value : values) value = std::fabs(value);
  }
};

struct Sizes {
  Place3 x, y, filter;
  i64 x_pixels, y_pixels, taps, x_pitch, y_pitch;

  explicit Sizes(const Conv& v)
      : x(places(v.size)),
        y(size_of_y(v)),
        filter(places(v.filter)),
        x_pixels(v.images * count_of(x)),
        y_pixels(v.images * count_of(y)),
        taps(count_of(filter)),
        x_pitch(v.x_pitch == 0 ? v.channels : v.x_pitch),
        y_pitch(v.y_pitch == 0 ? v.filters : v.y_pitch) {}
};

/// Calls `visit(pixel of x, tap, pixel of y)` for each triple that the formula in conv.h relates.
template <class Visit>
void for_each_meeting(const Conv& v, const Sizes& s, const Visit& visit) {
  for (i64 image = 0; image < v.images; ++image)
    for_each_place(s.y, [&](const Place3& y) {
      for_each_place(s.filter, [&](const Place3& tap) {
        const Place3 x{in_x(v, 0, y.w, tap.w), in_x(v, 1, y.h, tap.h), in_x(v, 2, y.d, tap.d)};
        if (x.w < 0 || x.w >= s.x.w || x.h < 0 || x.h >= s.x.h || x.d < 0 || x.d >= s.x.d) return;
        visit(image * count_of(s.x) + number_of(x, s.x), number_of(tap, s.filter),
              image * count_of(s.y) + number_of(y, s.y));
      });
    });
}

std::vector<double> sums_of(const Problem& p, const HostBuffers& buffers, bool of_magnitudes) {
  const Conv& v = p.conv;
  const Sizes s(v);
  const bool reads_x = v.op != ConvOp::dgrad, reads_w = v.op != ConvOp::wgrad,
             reads_y = v.op != ConvOp::fprop;
  const DType x_type = v.op == ConvOp::wgrad ? p.b.type : p.a.type;
  Decoded x(x_type, v.op == ConvOp::wgrad ? buffers.b : buffers.a, reads_x ? s.x_pixels : 0, v.channels,
            s.x_pitch);
  Decoded w(p.b.type, buffers.b, reads_w ? v.filters * s.taps : 0, v.channels, v.channels);
  Decoded y(p.a.type, buffers.a, reads_y ? s.y_pixels : 0, v.filters, s.y_pitch);
  if (of_magnitudes)
    for (Decoded* tensor : {&x, &w, &y}) tensor->take_magnitudes();

  const i64 results[] = {0, s.y_pixels * v.filters, s.x_pixels * v.channels, v.filters * s.taps * v.channels};
  std::vector<double> sums(static_cast<size_t>(results[static_cast<int>(v.op)]));
  for_each_meeting(v, s, [&](i64 x_pixel, i64 tap, i64 y_pixel) {
    for (i64 f = 0; f < v.filters; ++f) {
      const i64 matrix = f * s.taps + tap;
      if (v.op == ConvOp::fprop) {
        double sum = 0;
        for (i64 c = 0; c < v.channels; ++c) sum += x.row(x_pixel)[c] * w.row(matrix)[c];
        sums[static_cast<size_t>(y_pixel * v.filters + f)] += sum;
        continue;
      }
      const double dy = y.row(y_pixel)[f];
      const double* other = v.op == ConvOp::dgrad ? w.row(matrix) : x.row(x_pixel);
      double* to = sums.data() + (v.op == ConvOp::dgrad ? x_pixel : matrix) * v.channels;
      for (i64 c = 0; c < v.channels; ++c) to[c] += dy * other[c];
    }
  });
  return sums;
}

}  // namespace

std::vector<double> conv_sums(const Problem& problem, const HostBuffers& buffers) {
  return sums_of(problem, buffers, false);
}
std::vector<double> conv_magnitudes(const Problem& problem, const HostBuffers& buffers) {
  return sums_of(problem, buffers, true);
}

void reference_conv(const Problem& p, const HostBuffers& buffers, float alpha, float beta) {
  if (adds(p.epilogue) && alpha == 0.0f) return;
  const Conv& v = p.conv;
  const Sizes s(v);
  const std::vector<double> sums =
      alpha == 0.0f ? std::vector<double>() : conv_sums(p, buffers);  // alpha = 0: A and B are not read
  const bool is_wgrad = v.op == ConvOp::wgrad, is_fprop = v.op == ConvOp::fprop;
  const i64 rows = is_wgrad ? v.filters : is_fprop ? s.y_pixels : s.x_pixels;
  const i64 columns = is_wgrad ? s.taps * v.channels : is_fprop ? v.filters : v.channels;
  const i64 pitch = is_wgrad ? columns : is_fprop ? s.y_pitch : s.x_pitch;
  for (i64 row = 0; row < rows; ++row)
    for (i64 column = 0; column < columns; ++column) {
      const i64 element = row * pitch + column;
      const double sum = sums.empty() ? 0.0 : sums[static_cast<size_t>(row * columns + column)];
      const double value = before_activation(
          p, buffers, {alpha, beta},
          {.row = row, .column = column, .vector = column, .c = element, .d = element}, sum);
      store_element(p.d.type, buffers.d, element,
                    over_scale_d(p, buffers, activate(p.epilogue.activation, value)));
    }
}

}  // namespace sluice
