// SPDX-License-Identifier: Apache-2.0
// A CPU model of how TMA's im2col mode visits pixels, as this project understands it. E4r compares it with
// the hardware. Dimensions are innermost first: C, W, H, D, N.
#pragma once

#include <string>
#include <vector>

namespace probe {

/// The arguments of cuTensorMapEncodeIm2col, and the tensor's place in a buffer. Strides are in elements.
struct Geometry {
  int spatial = 2;
  long base = 0;                          // index of the tensor's first element in its buffer
  int dims[5] = {64, 1, 1, 1, 1};         // spatial + 2 are used
  long strides[5] = {1, 64, 64, 64, 64};  // strides[0] is 1
  int lower[3] = {0, 0, 0}, upper[3] = {0, 0, 0};
  int steps[3] = {1, 1, 1};
  int channels = 64, pixels = 64;
  int element_bytes = 2;
  int swizzle = 128;  // bytes; 0: none

  int rank() const { return spatial + 2; }
  int images() const { return dims[spatial + 1]; }
  void pack(int pitch);  // sets the strides of a tensor whose pixels are `pitch` elements apart
  std::string text() const;
};

/// The start of a box: channel, w, h, d, image (spatial + 2 are used), and the offsets.
struct Start {
  int at[5] = {0, 0, 0, 0, 0};
  int offsets[3] = {0, 0, 0};
  std::string text(int spatial) const;
};

/// For each row of the box, returns the index of its first channel's element in the buffer; -1 if it is
/// outside of the tensor.
std::vector<long> rows_of(const Geometry& g, const Start& start);
/// Returns the number of channels of a row that are inside of the tensor.
int live_channels(const Geometry& g, const Start& start);

/// Returns the expected elements of the box, row by row, without a swizzle.
template <class T>
std::vector<T> expected_box(const Geometry& g, const Start& start, const std::vector<T>& memory) {
  std::vector<T> box(static_cast<size_t>(g.pixels) * g.channels, T(0));
  const std::vector<long> rows = rows_of(g, start);
  const int live = live_channels(g, start);
  for (int row = 0; row < g.pixels; ++row)
    for (int c = 0; c < live && rows[row] >= 0; ++c)
      box[static_cast<size_t>(row) * g.channels + c] = memory[rows[row] + start.at[0] + c];
  return box;
}

/// Returns the byte of the box that is stored at `address`. The box begins at a multiple of 1024.
unsigned swizzled(unsigned address, int swizzle);

/// Returns the upper corner with which there are exactly `positions` positions from `lower` on.
inline int upper_corner(int lower, int positions, int step, int extent) {
  return lower + (positions - 1) * step + 1 - extent;
}

}  // namespace probe
