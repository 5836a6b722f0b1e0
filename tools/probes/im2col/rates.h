// SPDX-License-Identifier: Apache-2.0
// E1's kernel has a ring of stages. One thread fills it by the copy engine and another empties it at once, as
// the load role and the math role of a product do.
#pragma once

#include "maps.h"

namespace probe {

inline constexpr int kMostTaps = 32;
inline constexpr int kMostStages = 16;
inline constexpr int kMostEntries = 1024;  // boxes whose starts a CTA keeps in shared memory

struct RateParams {
  CUtensorMap map;
  int extents[3];  // positions along w, h, d
  int lower[3], steps[3];
  int image_base;      // added to the image
  int pixels;          // the whole walk has so many
  int taps, blocks;    // k-tiles of one tile of pixels: taps times blocks of 64 channels
  int stages, loads;   // stages of the ring, and how many are filled
  int tiles_each;      // tiles of pixels that each cluster walks in turn
  long long* clocks;   // one for each CTA
  long long* elapsed;  // nanoseconds
  int* failed;
  Offsets offsets[kMostTaps];
};

struct RateShape {
  int spatial;  // 0: a tiled 2-D map, whose row is Pixel::w
  int ctas;     // a cluster's; each loads a slice of every stage for all
  int box_rows;
  int stage_rows;
  int boxes() const { return stage_rows / ctas / box_rows; }  // that a CTA issues for a stage
};

/// Milliseconds of one launch, or a negative number if the shape has no kernel.
float run_rate(const RateShape& shape, const RateParams& params, int clusters, cudaStream_t stream);

}  // namespace probe
