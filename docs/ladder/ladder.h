// SPDX-License-Identifier: Apache-2.0
// Parameters and launch of every step of the ladder. Both compilers read it: NVRTC with a step, g++ with
// tests/ladder/ladder.cc, which checks and times them. D (m x n, fp32) = A (m x k, bf16) times B transposed,
// where row j of B (n x k, bf16) makes column j of D. All matrices are row-major without gaps. m is a
// multiple of 128, n of 256, k of 64, so that no step needs code for rests.
#pragma once

#include <sluice/spec/params.h>

namespace ladder {

using bf16 = unsigned short;  // the upper half of a float

struct Params {
  sluice::TensorMap map_a, map_b;  // steps 5 to 8: boxes of tile_m (tile_n) rows and tile_k columns
  const bf16* a;
  const bf16* b;
  float* d;
  int m, n, k;
};

struct Launch {
  int threads;         // a CTA has
  int tile_m, tile_n;  // rows and columns of D that a CTA makes at a time
  int tile_k;          // elements along k that a stage holds
  int stages;          // tiles of A and B that shared memory holds
  int row_bytes;       // a tile's row in shared memory, padding included; 0: static shared memory or none
  bool persistent;     // one CTA an SM; else a CTA for each tile
};

inline constexpr Launch kSteps[] = {
    {256, 16, 16, 1, 0, 0, false},       // 1 one thread an element
    {256, 64, 64, 16, 1, 0, false},      // 2 tiles in shared memory
    {256, 64, 64, 32, 4, 80, false},     // 3 a ring of tiles, copied in the background
    {256, 128, 128, 64, 3, 144, false},  // 4 tensor cores, a warp at a time
    {256, 128, 128, 64, 4, 128, false},  // 5 the copy engine
    {256, 128, 128, 64, 4, 128, false},  // 6 tensor cores, a warpgroup at a time
    {384, 128, 256, 64, 4, 128, false},  // 7 warps with roles
    {384, 128, 256, 64, 4, 128, true},   // 8 persistent CTAs
};

}  // namespace ladder
