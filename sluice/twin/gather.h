// SPDX-License-Identifier: Apache-2.0
// TMA's im2col mode on a CPU. From the arguments of cuTensorMapEncodeIm2col, coordinates and offsets it
// computes the elements that a load reads or a store writes. It follows the documentation (CUDA driver API;
// PTX ISA, "im2col mode"), whose limits are errors here, and shares no arithmetic with spec/conv.h. All lists
// are innermost first: channels, w, h, d, images.
#pragma once

#include <vector>

#include <sluice/result.h>
#include <sluice/spec/base.h>

namespace sluice::twin {

/// The arguments of a tensor map. Strides are in elements; the first is that of the second dimension.
struct GatherMap {
  int rank = 4;
  i64 extents[5] = {};
  i64 strides[4] = {};
  int lower[3] = {}, upper[3] = {};
  int channels = 64, pixels = 64;
  int steps[5] = {1, 1, 1, 1, 1};
  int element_bytes = 2;
  int swizzle_bytes = 128;
};
/// Checks a map. Error: invalid_argument, with the documented rule that the map breaks.
Result<void> check_gather_map(const GatherMap& map);

/// The coordinates of an instruction: the first pixel, before the offsets.
struct GatherAt {
  i64 channel = 0;
  i64 pixel[3] = {};
  i64 image = 0;
};
/// A pixel of the box: its first element in the tensor, and how many of its channels are inside the tensor. A
/// load returns zeros for the others; a store does not write them.
struct GatherRow {
  i64 element = 0;
  int channels = 0;
};

/// Computes the rows that a load returns, in the order of the box. Requires that check_gather_map() passed.
/// Error: invalid_argument, for coordinates or offsets that TMA does not support.
Result<void> gather_load(const GatherMap& map, const GatherAt& at, const u16* offsets,
                         std::vector<GatherRow>& rows);
/// Computes the rows that a store with im2col_no_offs writes.
Result<void> gather_store(const GatherMap& map, const GatherAt& at, std::vector<GatherRow>& rows);

}  // namespace sluice::twin
