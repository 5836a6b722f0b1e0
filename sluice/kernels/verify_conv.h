// SPDX-License-Identifier: Apache-2.0
// A convolution as the verifier sees it: which elements of its tensors are multiplied, from the definition
//   place in x = place in y * stride - padding + tap * dilation      along each axis
// by division and remainder. It uses the values of Conv, but none of the arithmetic of spec/conv.h with which
// kernels compute addresses. Compiled by NVRTC (verify_check.cuh) and by g++ (check/verify_data.cc).
//
//   product  row of D        column of D       k
//   fprop    pixel of y      filter            tap, channel
//   dgrad    pixel of x      channel           tap, filter
//   wgrad    filter          tap, channel      pixel of y
// Channels (or filters) of a tap are padded to a whole step of the tensor core, because the error model works
// in such steps.
#pragma once

#include <sluice/spec/problem.h>

namespace sluice::verify {

enum class Side : u8 { a, b };

/// y's length along an axis: the number of positions of the dilated filter in the padded x, `stride` apart.
SLUICE_HD constexpr int y_length(const Conv& v, int axis) {
  const i64 covered = i64{v.filter[axis] - 1} * v.dilation[axis] + 1;
  const i64 room = i64{v.size[axis]} + v.padding[axis] + v.padding_after[axis] - covered;
  return room < 0 ? 0 : static_cast<int>(room / v.stride[axis]) + 1;
}
SLUICE_HD constexpr Axes y_size_of(const Conv& v) {
  return {y_length(v, 0), y_length(v, 1), y_length(v, 2)};
}
SLUICE_HD constexpr i64 volume(const Axes& axes) {
  return i64{axes.w} * axes.h * axes.d;
}

/// A tensor in memory: rows are pixels of x or y, or filters; columns are their channels (of w: taps x
/// channels).
struct TensorShape {
  i64 rows, columns, pitch;
};
SLUICE_HD constexpr TensorShape x_shape(const Conv& v) {
  return {v.images * volume(v.size), v.channels, v.x_pitch == 0 ? v.channels : v.x_pitch};
}
SLUICE_HD constexpr TensorShape y_shape(const Conv& v) {
  return {v.images * volume(y_size_of(v)), v.filters, v.y_pitch == 0 ? v.filters : v.y_pitch};
}
SLUICE_HD constexpr TensorShape w_shape(const Conv& v) {
  const i64 columns = volume(v.filter) * v.channels;
  return {v.filters, columns, columns};
}
SLUICE_HD constexpr TensorShape a_shape(const Conv& v) {
  return v.op == ConvOp::fprop ? x_shape(v) : y_shape(v);
}
SLUICE_HD constexpr TensorShape b_shape(const Conv& v) {
  return v.op == ConvOp::wgrad ? x_shape(v) : w_shape(v);
}
SLUICE_HD constexpr TensorShape d_shape(const Conv& v) {
  return v.op == ConvOp::fprop ? y_shape(v) : v.op == ConvOp::dgrad ? x_shape(v) : w_shape(v);
}

/// k of one tap, rounded up: to whole instructions for 16-bit inputs, to whole promotion steps for fp8.
SLUICE_HD constexpr i64 tap_depth(const Problem& p) {
  const i64 summed = p.conv.op == ConvOp::dgrad ? p.conv.filters : p.conv.channels;
  return round_up(summed, i64{is_fp8(p.a.type) ? 128 : 32});
}
/// The product with which D is compared. For a convolution it has the rows and columns that D has in memory,
/// regardless of the kernel's phases and blocks; any other problem is returned unchanged.
SLUICE_HD constexpr Problem judged_problem(Problem p) {
  if (!is_conv(p.conv)) return p;
  const TensorShape d = d_shape(p.conv);
  p.m = d.rows;
  p.n = d.columns;
  p.k = p.conv.op == ConvOp::wgrad ? y_shape(p.conv).rows : volume(p.conv.filter) * tap_depth(p);
  p.batch = 1;
  p.c.ld = p.d.ld = d.pitch;
  p.a.batch_stride = p.b.batch_stride = p.c.batch_stride = p.d.batch_stride = 0;
  return p;
}

/// Position of a pixel or a tap along each axis.
struct Point {
  int w, h, d;
  int image;

  SLUICE_HD constexpr int operator[](int axis) const { return axis == 0 ? w : axis == 1 ? h : d; }
};
SLUICE_HD constexpr Point point_of(u32 number, const Axes& size) {
  const u32 w = static_cast<u32>(size.w), h = static_cast<u32>(size.h), d = static_cast<u32>(size.d);
  const u32 row = number / w, plane = row / h, image = plane / d;
  return {static_cast<int>(number - row * w), static_cast<int>(row - plane * h),
          static_cast<int>(plane - image * d), static_cast<int>(image)};
}
SLUICE_HD constexpr i64 number_of(const Point& at, const Axes& size) {
  return ((i64{at.image} * size.d + at.d) * size.h + at.h) * size.w + at.w;
}

inline constexpr i64 kOutside = -1;

/// Index of the element of x that pixel `y` reads at a tap.
SLUICE_HD constexpr i64 x_element(const Conv& v, const Point& y, const Point& tap, i64 channel) {
  int x[kMostSpatial] = {};
  for (int axis = 0; axis < kMostSpatial; ++axis) {
    x[axis] = y[axis] * v.stride[axis] - v.padding[axis] + tap[axis] * v.dilation[axis];
    if (x[axis] < 0 || x[axis] >= v.size[axis]) return kOutside;
  }
  return number_of({x[0], x[1], x[2], y.image}, v.size) * x_shape(v).pitch + channel;
}
/// Index of the element of y that reads pixel `x` at a tap; with a stride most pixels have none.
SLUICE_HD constexpr i64 y_element(const Conv& v, const Axes& y_size, const Point& x, const Point& tap,
                                  i64 filter) {
  int y[kMostSpatial] = {};
  for (int axis = 0; axis < kMostSpatial; ++axis) {
    const int distance = x[axis] + v.padding[axis] - tap[axis] * v.dilation[axis];
    if (distance < 0 || distance % v.stride[axis] != 0) return kOutside;
    y[axis] = distance / v.stride[axis];
    if (y[axis] >= y_size[axis]) return kOutside;
  }
  const i64 pitch = v.y_pitch == 0 ? v.filters : v.y_pitch;
  return number_of({y[0], y[1], y[2], x.image}, y_size) * pitch + filter;
}

/// Index in its tensor of A[row][k] or B[row][k], for a convolution; kOutside: the element is zero.
SLUICE_HD constexpr i64 conv_element(const Problem& p, const Axes& y_size, Side side, i64 row, i64 k) {
  const Conv& v = p.conv;
  const u32 row32 = static_cast<u32>(row), k32 = static_cast<u32>(k);
  if (v.op == ConvOp::wgrad) {
    if (side == Side::a) return k * (v.y_pitch == 0 ? v.filters : v.y_pitch) + row;
    const u32 channels = static_cast<u32>(v.channels), tap = row32 / channels;
    return x_element(v, point_of(k32, y_size), point_of(tap, v.filter), row32 - tap * channels);
  }
  const u32 depth = static_cast<u32>(tap_depth(p)), tap = k32 / depth, at = k32 - tap * depth;
  if (v.op == ConvOp::fprop) {
    if (at >= v.channels) return kOutside;
    if (side == Side::b) return (row * volume(v.filter) + tap) * v.channels + at;
    return x_element(v, point_of(row32, y_size), point_of(tap, v.filter), at);
  }
  if (at >= v.filters) return kOutside;
  if (side == Side::b) return (at * volume(v.filter) + tap) * v.channels + row;
  return y_element(v, y_size, point_of(row32, v.size), point_of(tap, v.filter), at);
}

}  // namespace sluice::verify
