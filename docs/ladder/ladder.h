// SPDX-License-Identifier: Apache-2.0
// Parameters and launch of every step of the ladder. It is compiled by NVRTC together with a step, and by g++
// with tests/ladder/ladder.cc, which checks and times the steps. D (m x n, fp32) = A (m x k, bf16) times B
// transposed, where row j of B (n x k, bf16) gives column j of D. All matrices are row-major without gaps. m
// is a multiple of 128, n of 256 and k of 64, so that no step needs code for partial tiles.
#pragma once

#include <sluice/spec/params.h>

namespace ladder {

using bf16 = unsigned short;  // the upper half of an fp32

struct Params {
  sluice::TensorMap map_a, map_b;  // steps 5 to 8: boxes of tile_m (tile_n) rows and tile_k columns
  const bf16* a;
  const bf16* b;
  float* d;
  int m, n, k;
};

struct Launch {
  int threads;         // threads per CTA
  int tile_m, tile_n;  // rows and columns of D that a CTA computes at a time
  int tile_k;          // elements along k in one stage
  int stages;          // stages in shared memory, each with a tile of A and one of B
  int row_bytes;    // bytes of a tile's row in shared memory, with padding; 0: static shared memory or none
  bool persistent;  // true: one CTA per SM; false: one per tile
};

inline constexpr Launch kSteps[] = {
    {256, 16, 16, 1, 0, 0, false},       // 1 one thread per element
    {256, 64, 64, 16, 1, 0, false},      // 2 tiles in shared memory
    {256, 64, 64, 32, 4, 80, false},     // 3 a ring of tiles, copied in the background
    {256, 128, 128, 64, 3, 144, false},  // 4 tensor cores, used by warps
    {256, 128, 128, 64, 4, 128, false},  // 5 TMA
    {256, 128, 128, 64, 4, 128, false},  // 6 tensor cores, used by warpgroups
    {384, 128, 256, 64, 4, 128, false},  // 7 warps with roles
    {384, 128, 256, 64, 4, 128, true},   // 8 persistent CTAs
};

}  // namespace ladder
