// SPDX-License-Identifier: Apache-2.0
// The arguments of cuTensorMapEncodeIm2col for a convolution: for the tensor that is loaded in im2col mode,
// and for the pixels of dx that a phase stores. tests/protocol/conv_maps_test.cc compares them with the host
// library's.
#pragma once

#include <sluice/spec/conv.h>
#include <sluice/spec/dtype.h>
#include <sluice/twin/gather.h>

namespace sluice::twin {

/// Returns the map of x (or dy) for loads of `phase`; a box has `pixels` pixels of `channels` channels.
constexpr GatherMap gathered_map(const Conv& v, DType type, const Phase& phase, int channels, int pixels) {
  const bool of_x = gathers_x(v.op);
  GatherMap map{
      .rank = v.spatial + 2, .channels = channels, .pixels = pixels, .element_bytes = bytes_of(type)};
  map.extents[0] = of_x ? v.channels : v.filters;
  i64 pitch = of_x ? x_pitch_of(v) : y_pitch_of(v);
  for (int axis = 0; axis < v.spatial; ++axis) {
    map.extents[axis + 1] = of_x ? v.size[axis] : output_size(v, axis);
    map.strides[axis] = pitch;
    pitch *= map.extents[axis + 1];
    map.lower[axis] = phase.axes[axis].lower;
    map.upper[axis] = upper_corner(phase.axes[axis]);
    map.steps[axis + 1] = phase.axes[axis].step;
  }
  map.extents[v.spatial + 1] = v.images;
  map.strides[v.spatial] = pitch;
  return map;
}

/// Returns the map of the phase's pixels of dx, `channels` channels each. Its address is dx + phase_offset().
constexpr GatherMap phase_map(const Conv& v, DType type, const Phase& phase, int channels, int pixels) {
  GatherMap map{
      .rank = v.spatial + 2, .channels = channels, .pixels = pixels, .element_bytes = bytes_of(type)};
  map.extents[0] = v.channels;
  i64 pitch = x_pitch_of(v);
  for (int axis = 0; axis < v.spatial; ++axis) {
    map.extents[axis + 1] = phase.axes[axis].positions;
    map.strides[axis] = pitch * v.stride[axis];
    pitch *= v.size[axis];
  }
  map.extents[v.spatial + 1] = v.images;
  map.strides[v.spatial] = pitch;
  return map;
}
constexpr i64 phase_offset(const Conv& v, const Phase& phase) {
  return x_pitch_of(v) * (phase.first.w + i64{v.size.w} * (phase.first.h + i64{v.size.h} * phase.first.d));
}

}  // namespace sluice::twin
