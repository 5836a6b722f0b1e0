// SPDX-License-Identifier: Apache-2.0
// E1's kernel has a ring of stages. One thread fills it by TMA and another releases the stages at once, as
// the load role and the math role of a GEMM kernel do.
#pragma once

#include "maps.h"

namespace probe {

inline constexpr int kMostTaps = 32;
inline constexpr int kMostStages = 16;
inline constexpr int kMostEntries = 1024;  // number of boxes whose coordinates a CTA keeps in shared memory

struct RateParams {
  CUtensorMap map;
  int extents[3];  // number of positions along w, h and d
  int lower[3], steps[3];
  int image_base;      // added to the image
  int pixels;          // number of pixels in all
  int taps, blocks;    // k-tiles per tile of pixels: taps x blocks of 64 channels
  int stages, loads;   // stages of the ring; number of stages that are loaded in all
  int tiles_each;      // tiles of pixels that each cluster loads, one after the other
  long long* clocks;   // one per CTA
  long long* elapsed;  // nanoseconds
  int* failed;
  Offsets offsets[kMostTaps];
};

struct RateShape {
  int spatial;  // 0: a tiled 2-D map, whose row is Pixel::w
  int ctas;     // CTAs of a cluster; each loads a slice of every stage for all
  int box_rows;
  int stage_rows;
  int boxes() const { return stage_rows / ctas / box_rows; }  // boxes that a CTA loads per stage
};

/// Returns the milliseconds of one launch; negative if there is no kernel for the shape.
float run_rate(const RateShape& shape, const RateParams& params, int clusters, cudaStream_t stream);

}  // namespace probe
