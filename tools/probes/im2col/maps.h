// SPDX-License-Identifier: Apache-2.0
// Tensor maps, through the driver that the runtime finds: nothing links with libcuda.
#pragma once

#include <cuda.h>

#include "../harness.h"
#include "walk.h"

namespace probe {

/// w, h, d, n of the first pixel; kSpatial + 1 of them are used, and the image is always `n`.
struct Pixel {
  int w, h, d, n;
};
struct Offsets {
  unsigned short w, h, d;
};

/// cuTensorMapEncodeIm2col for `g`, whose buffer begins at `memory`. Returns the driver's code.
CUresult encode_im2col(CUtensorMap* map, const Geometry& g, void* memory);
/// encode_im2col, which ends the process if the driver refuses.
CUtensorMap im2col_map(const Geometry& g, void* memory);

/// A matrix of `rows` rows of `columns` elements that lie `pitch` elements apart, and a box of it.
struct Matrix {
  long rows = 0;
  int columns = 64;
  long pitch = 64;
  int box_rows = 64, box_columns = 64;
  int element_bytes = 2;
  int swizzle = 128;
};
CUtensorMap tiled_map(const Matrix& m, void* memory);

CUresult replace_address(CUtensorMap* map, void* address);
std::string name_of(CUresult result);

}  // namespace probe
