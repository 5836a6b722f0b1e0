// SPDX-License-Identifier: Apache-2.0
// The product of a convolution: its sizes, layouts and strides, and the extent of its tensors in memory.
#pragma once

#include <sluice/spec/problem.h>

namespace sluice {

/// Limits of TMA's gathering loads, which depend on the number of axes: corners are in [-limit, limit),
/// offsets in 0..limit, steps in 1..kMostStep.
SLUICE_HD constexpr int corner_limit(int axes) {
  return axes == 1 ? 1 << 15 : axes == 2 ? 1 << 7 : 1 << 4;
}
SLUICE_HD constexpr int offset_limit(int axes) {
  return axes == 1 ? (1 << 16) - 1 : axes == 2 ? 255 : 31;
}
inline constexpr int kMostStep = 8;

/// True if nothing is gathered: one tap, no stride, no padding. Such a convolution is a plain matrix product.
SLUICE_HD constexpr bool is_pointwise(const Conv& v) {
  return taps_of(v) == 1 && v.stride == kOnes && v.padding == Axes{} && v.padding_after == Axes{};
}

/// Elements from the first of x (or y) to one past its last.
SLUICE_HD constexpr i64 x_span(const Conv& v) {
  return (x_pixels(v) - 1) * x_pitch_of(v) + v.channels;
}
SLUICE_HD constexpr i64 y_span(const Conv& v) {
  return (y_pixels(v) - 1) * y_pitch_of(v) + v.filters;
}

/// Multiplications of the convolution, not counting the padding of channels to whole blocks.
SLUICE_HD constexpr double multiplications(const Conv& v) {
  return static_cast<double>(y_pixels(v)) * static_cast<double>(v.filters) * static_cast<double>(v.channels) *
         static_cast<double>(taps_of(v));
}
/// Pixels of x that some tap reads. With a stride larger than the filter, taps skip some pixels.
SLUICE_HD constexpr i64 touched_pixels(const Conv& v) {
  i64 pixels = v.images;
  for (int axis = 0; axis < kMostSpatial; ++axis) {
    const bool all = v.stride[axis] <= v.filter[axis] && v.dilation[axis] == 1;
    const i64 reached = long_output_size(v, axis) * v.filter[axis];
    pixels *= all || reached > v.size[axis] ? v.size[axis] : reached;
  }
  return pixels;
}
/// Elements of the gathered tensor that are read.
SLUICE_HD constexpr i64 touched_elements(const Conv& v) {
  return gathers_x(v.op) ? touched_pixels(v) * v.channels : y_pixels(v) * v.filters;
}

/// The product that computes `v`; sizes and strides of `v` must be validated before. A pointwise convolution
/// becomes a plain product, so that it shares kernels and records with other products.
SLUICE_HD constexpr Problem product_of_conv(const Conv& v, DType inputs, DType output,
                                            const Epilogue& epilogue = {}) {
  const i64 x = x_pitch_of(v), y = y_pitch_of(v), w = taps_of(v) * v.channels;
  const bool pointwise = is_pointwise(v);
  const ConvExtents e = extents_of(v, k_block(inputs));
  Problem p{.m = e.m, .n = e.n, .k = e.k, .batch = e.batch};
  p.epilogue = epilogue;
  p.a = {.type = inputs, .major = Major::k, .ld = v.op == ConvOp::fprop ? x : y};
  p.b = {.type = inputs, .major = Major::mn, .ld = w, .batch_stride = v.channels};
  p.d = {.type = output, .major = Major::k, .ld = v.op == ConvOp::fprop ? y : x};
  if (v.op == ConvOp::fprop) p.b.major = Major::k;
  if (v.op == ConvOp::wgrad) {
    p.a.major = Major::mn;
    p.b = {.type = inputs, .major = Major::mn, .ld = x};
    p.d = {.type = output, .major = Major::k, .ld = w, .batch_stride = v.channels};
  }
  if (epilogue.residual) p.c = {.type = epilogue.c_type, .major = Major::k, .ld = p.d.ld};
  if (!pointwise) {
    p.conv = v;
    return p;
  }
  if (v.op == ConvOp::fprop) p.k = v.channels;
  if (v.op == ConvOp::dgrad) p.k = v.filters;
  if (v.op == ConvOp::wgrad) p.n = v.channels;
  p.a.batch_stride = p.b.batch_stride = p.c.batch_stride = p.d.batch_stride = 0;
  return with_strides(p);
}
/// product_of_conv() with the types, epilogue, accumulation and determinism of `like`.
SLUICE_HD constexpr Problem product_of_conv(const Conv& v, const Problem& like) {
  Problem p = product_of_conv(v, like.a.type, like.d.type, like.epilogue);
  p.b.type = like.b.type;
  p.accumulate = like.accumulate;
  p.deterministic = like.deterministic;
  return p;
}

}  // namespace sluice
