// SPDX-License-Identifier: Apache-2.0
// Makes tensor maps with the driver that the runtime finds, so that nothing links with libcuda.
#pragma once

#include <cuda.h>

#include "../harness.h"
#include "walk.h"

namespace probe {

/// Coordinates of the first pixel. kSpatial + 1 of them are used; the image is always `n`.
struct Pixel {
  int w, h, d, n;
};
struct Offsets {
  unsigned short w, h, d;
};

/// Calls cuTensorMapEncodeIm2col for `g`, whose buffer begins at `memory`. Returns the driver's result.
CUresult encode_im2col(CUtensorMap* map, const Geometry& g, void* memory);
/// As encode_im2col, but ends the process if the driver refuses.
CUtensorMap im2col_map(const Geometry& g, void* memory);

/// A matrix of `rows` x `columns` elements with a pitch of `pitch` elements, and a box of it.
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
