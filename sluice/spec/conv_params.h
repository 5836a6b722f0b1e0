// SPDX-License-Identifier: Apache-2.0
// The numbers in a gathering kernel's parameters; maps and pointers are the host's. Host and twin fill them
// here, so that both walk the same pixels and taps.
#pragma once

#include <sluice/spec/params.h>

namespace sluice {

/// Channels of the gathered tensor, as a kernel walks them: k (fprop, dgrad), or columns at a tap (wgrad).
SLUICE_HD constexpr int gathered_channels(const Conv& v) {
  return static_cast<int>(gathers_x(v.op) ? v.channels : v.filters);
}

/// Blocks of those channels at a tap: k-tiles (fprop, dgrad) or atoms of columns (wgrad).
SLUICE_HD constexpr int channel_blocks(const Conv& v, int block) {
  return ceil_div(gathered_channels(v), block);
}

/// The gather of `v`, with k-tiles of `block` elements. Taps are those of its phases, one after another.
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

/// Fills sizes and places of the phases of `v`, a dgrad with a stride.
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
