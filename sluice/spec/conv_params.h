// SPDX-License-Identifier: Apache-2.0
// The numeric parameters of a gathering kernel; the host adds maps and pointers. Host and twin both fill them
// here, so that both traverse the same pixels and taps.
#pragma once

#include <sluice/spec/params.h>

namespace sluice {

/// Channels of the gathered tensor. For the kernel they are k (fprop, dgrad), or columns per tap (wgrad).
SLUICE_HD constexpr int gathered_channels(const Conv& v) {
  return static_cast<int>(gathers_x(v.op) ? v.channels : v.filters);
}

/// Blocks of those channels per tap: k-tiles (fprop, dgrad) or atoms of columns (wgrad).
SLUICE_HD constexpr int channel_blocks(const Conv& v, int block) {
  return ceil_div(gathered_channels(v), block);
}

/// The gather of `v`, with k-tiles of `block` elements. Its taps are those of all phases, one phase after
/// another.
SLUICE_HD constexpr Gather gather_for(const Conv& v, int block) {
  const Phases phases = phases_of(v);
  Gather gather{};
  gather.pixels = box_of(phases.items[0]);
  gather.blocks = channel_blocks(v, block);
  gather.channels = static_cast<int>(v.channels);
  int pixels = block;
  for (int axis = 0; axis < kMostSpatial; ++axis) {
    const int passed = pixels / gather.pixels.positions[axis];
    gather.advance_at[axis] = pixels - passed * gather.pixels.positions[axis];
    pixels = passed;
  }
  gather.advance_images = pixels;
  int tap = 0;
  for (int i = 0; i < phases.count; ++i)
    for (int t = 0; t < phases.items[i].taps(); ++t) gather.taps[tap++] = tap_of(v, phases.items[i], t);
  return gather;
}

/// Fills in sizes and positions of the phases of `v`, a dgrad with a stride.
SLUICE_HD constexpr void fill_phases(const Conv& v, int block, PhaseParams (&all)[kMostPhases]) {
  const Phases phases = phases_of(v);
  const int blocks = channel_blocks(v, block);
  int tap = 0;
  for (int i = 0; i < phases.count; ++i) {
    const Phase& phase = phases.items[i];
    all[i].pixels = box_of(phase);
    all[i].m = static_cast<int>(v.images * phase.positions());
    all[i].k_tiles = phase.taps() * blocks;
    all[i].first_tap = tap;
    tap += phase.taps();
  }
}

}  // namespace sluice
