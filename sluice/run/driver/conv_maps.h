// SPDX-License-Identifier: Apache-2.0
// The tensor maps of a convolution, in addition to those of gemm_maps.h. The loaders in device/load, and
// Machine::issue_store, rely on exactly these boxes:
//   operand                 map      extents                       box
//   gathered rows           im2col   {channels, w, h, d, images}   {tile.k, tile.m / cluster.n pixels}
//   their tail              im2col   as above                      fewer pixels
//   gathered columns        im2col   as above                      {64, 64 / cluster.m pixels}
//   w (fprop)               tiled    {channels, filters, taps}     as B Major::k
//   w (dgrad)               tiled    {channels, filters, taps}     as B Major::mn
//   dw                      tiled    {channels, filters, taps}     as D
//   every stride-th of dx   im2col   a phase's                     {a chunk of columns, 64 pixels}
#pragma once

#include <sluice/run/driver/gemm_maps.h>
#include <sluice/run/driver/tensor_map_im2col.h>

namespace sluice {

/// Returns the gathered tensor of one phase. `channels` and `pixels`: the size of one load.
constexpr Im2colShape gathered_shape(const Conv& v, DType type, const Phase& phase, int channels,
                                     int pixels) {
  Im2colShape s{.type = type, .rank = v.spatial + 2, .channels = channels, .pixels = pixels};
  const bool of_x = gathers_x(v.op);
  i64 stride = of_x ? x_pitch_of(v) : y_pitch_of(v);
  s.extents[0] = of_x ? v.channels : v.filters;
  for (int axis = 0; axis < v.spatial; ++axis) {
    const GatherAxis& a = phase.axes[axis];
    s.extents[axis + 1] = a.extent;
    s.strides[axis] = stride;
    stride *= a.extent;
    s.lower[axis] = a.lower;
    s.upper[axis] = upper_corner(a);
    s.steps[axis + 1] = a.step;
  }
  s.extents[v.spatial + 1] = v.images;
  s.strides[v.spatial] = stride;
  return s;
}

/// Returns the pixels of dx that a phase writes.
constexpr Im2colShape phase_store_shape(const Conv& v, DType type, const Phase& phase, int channels) {
  Im2colShape s{.type = type, .rank = v.spatial + 2, .channels = channels, .pixels = kWaveRows};
  i64 stride = x_pitch_of(v);
  s.extents[0] = v.channels;
  for (int axis = 0; axis < v.spatial; ++axis) {
    s.extents[axis + 1] = phase.axes[axis].positions;
    s.strides[axis] = stride * v.stride[axis];
    stride *= v.size[axis];
  }
  s.extents[v.spatial + 1] = v.images;
  s.strides[v.spatial] = stride;
  return s;
}
/// Returns the offset of the phase's first pixel in dx, in elements.
constexpr i64 phase_offset(const Conv& v, const Phase& phase) {
  i64 offset = 0, stride = x_pitch_of(v);
  for (int axis = 0; axis < v.spatial; ++axis) {
    offset += phase.first[axis] * stride;
    stride *= v.size[axis];
  }
  return offset;
}

/// Returns the filter, or its gradient, as a batch of matrices, one per tap.
constexpr TensorMapShape taps_shape(const Conv& v, DType type, int box_inner, int box_outer) {
  return {.type = type,
          .inner = v.channels,
          .outer = v.filters,
          .batch = taps_of(v),
          .ld = taps_of(v) * v.channels,
          .batch_stride = v.channels,
          .box_inner = box_inner,
          .box_outer = box_outer};
}

}  // namespace sluice
