// SPDX-License-Identifier: Apache-2.0
// A convolution's kernel on a CPU, load by load: the maps of host/driver/conv_maps.h, the parameters of
// spec/conv.h, the walks of device/load/pixel_walk.cuh, and sluice/twin/gather.h as the copy engine. Stages
// begin as NaN, so a product with what was not loaded shows; every write of D is counted. Mutants are bugs
// planted in the arithmetic.
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
  taps_of_a_phase_a_stride_apart,  // the divisor that stride and dilation share is forgotten
  taps_of_the_filter_h_before_w,
  tails_of_8_rows,
  pixels_without_a_carry,
  corners_h_before_w,
  phases_with_the_first_taps,
  atoms_past_the_last,
  last  // their count
};

/// Tensors as the kernel finds them, with NaN between pixels.
struct WalkTensors {
  std::vector<float> x, w, y;
};
struct WalkResult {
  std::vector<float> d;      // NaN where nothing was written
  std::vector<int> written;  // how often
  std::string refusal;       // a load or store that the copy engine would not take
};
/// `clusters`: into how many runs all k-tiles are dealt out; at most as many as there are. Ignored for
/// phases. `direct`: a wgrad stores without TMA.
struct WalkPlan {
  KernelConfig config;
  int clusters = 1;
  bool direct = false;
};
WalkResult walk_conv(const Conv& conv, const WalkPlan& plan, const WalkTensors& tensors, WalkMutant mutant);

/// A random geometry with its tensors, and whether all three products come out as sluice/reference/conv.h has
/// them, with each element of D written once. Empty: right.
std::string check_random_walk(unsigned seed, WalkMutant mutant);

/// Geometries that check_random_walk made since the start, by kind.
struct WalkCounts {
  int strided, dilated, split, clustered, padded_blocks, empty_phases;
};
WalkCounts walk_counts();

}  // namespace sluice::test
