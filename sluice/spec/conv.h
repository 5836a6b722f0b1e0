// SPDX-License-Identifier: Apache-2.0
// A convolution as a matrix product with one gathered operand: its sizes, and how TMA and the load thread
// traverse it. Arithmetic only, the same on host, device and twin. Axes are innermost first: w, h, d.
//   y[n, q, f] = sum over taps t and channels c of x[n, q * stride - padding + t * dilation, c] * w[f, t, c]
// as in torch (cross-correlation). dgrad computes dx from dy and w, wgrad computes dw from dy and x. In
// memory x is N D H W C, y is N Z P Q F and w is F T R S C, channels innermost: torch's channels_last.
//
//   product  m             n              k              A                B
//   fprop    pixels of y   filters        taps x blocks  x gathered       w, one matrix per tap
//   dgrad    pixels of x   channels       taps x blocks  dy gathered      w, one matrix per tap
//   wgrad    filters       taps x blocks  pixels of y    dy, mn-major     x gathered, mn-major
// A block is one 128-byte row of channels; channels past the last are zeros in both operands.
#pragma once

#include <sluice/spec/base.h>

namespace sluice {

/// none: a plain product of matrices.
enum class ConvOp : u8 { none, fprop, dgrad, wgrad };

/// One value per spatial axis.
struct Axes {
  int w = 0, h = 0, d = 0;

  SLUICE_HD constexpr int operator[](int axis) const { return axis == 0 ? w : axis == 1 ? h : d; }
  SLUICE_HD constexpr int& operator[](int axis) { return axis == 0 ? w : axis == 1 ? h : d; }
  constexpr bool operator==(const Axes&) const = default;
};
inline constexpr Axes kOnes{1, 1, 1};

/// The forward convolution; `op` selects which of its three products is computed. Axes past `spatial` keep
/// their defaults.
struct Conv {
  ConvOp op = ConvOp::none;
  int spatial = 2;                            // 1, 2 or 3
  i64 images = 1, channels = 0, filters = 0;  // N; channels of x; channels of y
  Axes size = kOnes;                          // x's
  Axes filter = kOnes, stride = kOnes, dilation = kOnes;
  Axes padding{}, padding_after{};  // zeros before x and behind it
  i64 x_pitch = 0, y_pitch = 0;     // elements from one pixel to the next; 0: no gaps

  constexpr bool operator==(const Conv&) const = default;
};
SLUICE_HD constexpr bool is_conv(const Conv& v) {
  return v.op != ConvOp::none;
}

/// The properties of a convolution that a kernel is compiled for; all sizes are run-time parameters. phased:
/// dgrad with a stride; each matrix of the batch is a phase of dx.
struct ConvKind {
  ConvOp op = ConvOp::none;
  int spatial = 2;
  bool phased = false;

  constexpr bool operator==(const ConvKind&) const = default;
};
SLUICE_HD constexpr bool gathers_a(const ConvKind& kind) {
  return kind.op == ConvOp::fprop || kind.op == ConvOp::dgrad;
}

inline constexpr int kMostSpatial = 3;
inline constexpr int kMostTaps = 128;  // a launch's parameters have room for this many
inline constexpr int kMostPhases = 8;
inline constexpr int kConvBlock = 64;  // channels per block, for 16-bit types

SLUICE_HD constexpr int greatest_divisor(int a, int b) {
  while (b != 0) {
    const int rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/// y's length along an axis; 0 or less if y would be empty.
SLUICE_HD constexpr i64 long_output_size(const Conv& v, int axis) {
  const i64 room = i64{v.size[axis]} + v.padding[axis] + v.padding_after[axis] -
                   i64{v.dilation[axis]} * (v.filter[axis] - 1) - 1;
  return room < 0 ? 0 : room / v.stride[axis] + 1;
}
SLUICE_HD constexpr int output_size(const Conv& v, int axis) {
  return static_cast<int>(long_output_size(v, axis));
}
SLUICE_HD constexpr i64 taps_of(const Conv& v) {
  return i64{v.filter.w} * v.filter.h * v.filter.d;
}
SLUICE_HD constexpr i64 x_pixels(const Conv& v) {
  return v.images * v.size.w * v.size.h * v.size.d;
}
SLUICE_HD constexpr i64 y_pixels(const Conv& v) {
  return v.images * output_size(v, 0) * output_size(v, 1) * output_size(v, 2);
}
SLUICE_HD constexpr i64 x_pitch_of(const Conv& v) {
  return v.x_pitch != 0 ? v.x_pitch : v.channels;
}
SLUICE_HD constexpr i64 y_pitch_of(const Conv& v) {
  return v.y_pitch != 0 ? v.y_pitch : v.filters;
}
SLUICE_HD constexpr i64 padded_channels(i64 channels, int block = kConvBlock) {
  return round_up(channels, i64{block});
}
SLUICE_HD constexpr i64 filter_elements(const Conv& v) {
  return v.filters * taps_of(v) * v.channels;
}

/// True if the gathered tensor is x; otherwise it is dy.
SLUICE_HD constexpr bool gathers_x(ConvOp op) {
  return op != ConvOp::dgrad;
}
SLUICE_HD constexpr i64 phase_count(const Conv& v) {
  return v.op == ConvOp::dgrad ? i64{v.stride.w} * v.stride.h * v.stride.d : 1;
}
/// True for a dgrad with a stride. It multiplies nothing, because validation calls it before strides are
/// bounded.
SLUICE_HD constexpr bool is_phased(const Conv& v) {
  return v.op == ConvOp::dgrad && (v.stride.w > 1 || v.stride.h > 1 || v.stride.d > 1);
}
SLUICE_HD constexpr ConvKind kind_of(const Conv& v) {
  if (!is_conv(v)) return {};
  return {.op = v.op, .spatial = v.spatial, .phased = is_phased(v)};
}

/// One axis of a gather: where the pixels of the product begin in the gathered tensor, and the taps.
struct GatherAxis {
  int positions = 1;
  int lower = 0, step = 1;                // position p begins at lower + p * step, before the tap's offset
  int taps = 1;                           // 0: nothing is summed (a phase without taps)
  int filter_first = 0, filter_step = 1;  // index in the filter of tap t: filter_first + t * filter_step
  int offset_first = 0, offset_step = 0;  // offset of tap t from the position: offset_first + t * offset_step
  int extent = 1;                         // the gathered tensor's length
};
/// The box's upper corner for cuTensorMapEncodeIm2col. The box is [lower, extent + upper), and contains the
/// last position as its last element.
SLUICE_HD constexpr int upper_corner(const GatherAxis& a) {
  return a.lower + (a.positions - 1) * a.step + 1 - a.extent;
}

SLUICE_HD constexpr GatherAxis forward_axis(const Conv& v, int axis) {
  return {.positions = output_size(v, axis),
          .lower = -v.padding[axis],
          .step = v.stride[axis],
          .taps = v.filter[axis],
          .offset_step = v.dilation[axis],
          .extent = v.size[axis]};
}
/// One axis of a phase of dgrad: the pixels of x at `first` + stride * position. A tap r of the filter
/// contributes if first + padding - r * dilation is a multiple of the stride; in dy, taps have decreasing
/// offsets.
SLUICE_HD constexpr GatherAxis phase_axis(const Conv& v, int axis, int first) {
  const int stride = v.stride[axis], dilation = v.dilation[axis], shift = first + v.padding[axis];
  const int common = greatest_divisor(stride, dilation), every = stride / common;
  GatherAxis a{
      .positions = ceil_div(v.size[axis] - first, stride), .taps = 0, .extent = output_size(v, axis)};
  int r = 0;
  while (r < every && (shift - r * dilation) % stride != 0) ++r;
  if (r == every || r >= v.filter[axis]) return a;
  const int move = dilation / common, begin = (shift - r * dilation) / stride;
  a.taps = ceil_div(v.filter[axis] - r, every);
  a.filter_first = r;
  a.filter_step = every;
  a.lower = begin - (a.taps - 1) * move;
  a.offset_first = (a.taps - 1) * move;
  a.offset_step = -move;
  return a;
}

/// One product of a convolution: all of it or, for dgrad with a stride, every stride-th pixel of dx from
/// `first` on.
struct Phase {
  Axes first{};
  GatherAxis axes[kMostSpatial];

  SLUICE_HD constexpr int taps() const { return axes[0].taps * axes[1].taps * axes[2].taps; }
  SLUICE_HD constexpr i64 positions() const {
    return i64{axes[0].positions} * axes[1].positions * axes[2].positions;
  }
};
struct Phases {
  Phase items[kMostPhases];
  int count = 0;
};
/// The products of `v`, those with most work first; at most kMostPhases. Phases without pixels are left out.
SLUICE_HD constexpr Phases phases_of(const Conv& v) {
  Phases all;
  if (v.op != ConvOp::dgrad) {
    all.count = 1;
    for (int axis = 0; axis < kMostSpatial; ++axis) all.items[0].axes[axis] = forward_axis(v, axis);
    return all;
  }
  for (int w = 0; w < v.stride.w; ++w)
    for (int h = 0; h < v.stride.h; ++h)
      for (int d = 0; d < v.stride.d; ++d) {
        const Phase phase{{w, h, d}, {phase_axis(v, 0, w), phase_axis(v, 1, h), phase_axis(v, 2, d)}};
        if (w >= v.size.w || h >= v.size.h || d >= v.size.d) continue;
        int at = all.count++;
        for (; at > 0 && all.items[at - 1].taps() < phase.taps(); --at) all.items[at] = all.items[at - 1];
        all.items[at] = phase;
      }
  return all;
}

/// A tap as the load thread needs it: im2col offsets, and the index of the filter's matrix.
struct Tap {
  u16 offset[kMostSpatial];
  u16 filter;
};
/// Tap `index` in the order of k (fprop, dgrad) or of n (wgrad): w changes fastest.
SLUICE_HD constexpr Tap tap_of(const Conv& v, const Phase& phase, int index) {
  Tap tap{};
  int pitch = 1, filter = 0;
  for (int axis = 0; axis < kMostSpatial; ++axis) {
    const GatherAxis& a = phase.axes[axis];
    const int rest = index / a.taps, t = index - rest * a.taps;
    index = rest;
    tap.offset[axis] = static_cast<u16>(a.offset_first + t * a.offset_step);
    filter += (a.filter_first + t * a.filter_step) * pitch;
    pitch *= v.filter[axis];
  }
  tap.filter = static_cast<u16>(filter);
  return tap;
}

/// Sizes of the product that the kernel computes.
struct ConvExtents {
  i64 m = 0, n = 0, k = 0, batch = 1;
};
/// `block`: elements of a 128-byte row. With phases, m and k are those of the largest phase.
SLUICE_HD constexpr ConvExtents extents_of(const Conv& v, int block = kConvBlock) {
  if (v.op == ConvOp::wgrad) return {v.filters, taps_of(v) * padded_channels(v.channels), y_pixels(v), 1};
  if (v.op == ConvOp::fprop)
    return {y_pixels(v), v.filters, taps_of(v) * padded_channels(v.channels, block), 1};
  const Phases phases = phases_of(v);
  ConvExtents e{.n = v.channels, .batch = phases.count};
  for (int i = 0; i < phases.count; ++i) {
    const i64 m = v.images * phases.items[i].positions();
    const i64 k = phases.items[i].taps() * padded_channels(v.filters, block);
    e.m = m > e.m ? m : e.m;
    e.k = k > e.k ? k : e.k;
  }
  return e;
}

/// Consecutive pixels of the product, as the load thread counts them.
struct PixelBox {
  int positions[kMostSpatial];
  int lower[kMostSpatial], step[kMostSpatial];
};
/// Parameters of a gathering kernel that are the same for all tiles.
struct Gather {
  PixelBox pixels;
  int blocks;  // blocks of channels per tap
  // To advance by a k-tile of pixels, PixelWalk::advance adds these along each axis and to the image, with
  // carries.
  int advance_at[kMostSpatial];
  int advance_images;
  int channels;  // the filter's; further columns of D, up to a whole block, are not stored (wgrad)
  Tap taps[kMostTaps];
};
SLUICE_HD constexpr PixelBox box_of(const Phase& phase) {
  PixelBox box{};
  for (int axis = 0; axis < kMostSpatial; ++axis) {
    box.positions[axis] = phase.axes[axis].positions;
    box.lower[axis] = phase.axes[axis].lower;
    box.step[axis] = phase.axes[axis].step;
  }
  return box;
}

SLUICE_HD constexpr const char* name_of(ConvOp op) {
  switch (op) {
    case ConvOp::none: return "none";
    case ConvOp::fprop: return "fprop";
    case ConvOp::dgrad: return "dgrad";
    case ConvOp::wgrad: return "wgrad";
  }
  return "?";
}

}  // namespace sluice
