// SPDX-License-Identifier: Apache-2.0
// Simulates a convolution's kernel on a CPU, load by load. It uses the tensor maps of
// run/driver/conv_maps.h, the parameters of spec/conv.h, and the traversal of device/load/pixel_walk.cuh,
// with sluice/twin/gather.h as the copy engine. Stages start as NaN, so use of data that was not loaded
// shows. Writes of D are counted. Mutants are bugs planted in the arithmetic.
#pragma once

#include <string>
#include <vector>

#include <sluice/spec/config.h>
#include <sluice/spec/conv.h>

namespace sluice::test {

enum class WalkMutant {
  none,
  upper_corner_one_more,
  upper_corner_one_less,
  lower_corner_off_by_one,
  taps_of_dgrad_not_turned_round,
  taps_of_a_phase_a_stride_apart,  // ignores the common divisor of stride and dilation
  taps_of_the_filter_h_before_w,
  tails_of_8_rows,
  pixels_without_a_carry,
  corners_h_before_w,
  phases_with_the_first_taps,
  atoms_past_the_last,
  last  // number of mutants
};

/// Tensors in memory, with NaN in the gaps between pixels.
struct WalkTensors {
  std::vector<float> x, w, y;
};
struct WalkResult {
  std::vector<float> d;      // NaN where nothing was written
  std::vector<int> written;  // number of writes of each element
  std::string refusal;       // why the copy engine would refuse a load or store; "" if it would not
};
/// `slices`: into how many slices the k-tiles of a tile are cut; at most as many as there are. Ignored for
/// phases. `direct`: a wgrad stores without TMA.
struct WalkPlan {
  KernelConfig config;
  int slices = 1;
  bool direct = false;
};
WalkResult walk_conv(const Conv& conv, const WalkPlan& plan, const WalkTensors& tensors, WalkMutant mutant);

/// Computes all three products of a random geometry and compares them with sluice/reference/conv.h. Each
/// element of D must be written once. Returns "" if all is right, else what is wrong.
std::string check_random_walk(unsigned seed, WalkMutant mutant);

/// Number of geometries of each kind that check_random_walk() has made so far.
struct WalkCounts {
  int strided, dilated, split, clustered, padded_blocks, empty_phases;
};
WalkCounts walk_counts();

}  // namespace sluice::test
