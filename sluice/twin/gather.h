// SPDX-License-Identifier: Apache-2.0
// The copy engine's im2col mode on a CPU: from the arguments of cuTensorMapEncodeIm2col, coordinates and
// offsets, to the elements that a load brings or a store writes. Written from the documents (CUDA driver API;
// PTX ISA, "im2col mode"), whose limits are errors here. It shares no arithmetic with spec/conv.h. Everything
// is innermost first: channels, w, h, d, images.
#pragma once

#include <vector>

#include <sluice/result.h>
#include <sluice/spec/base.h>

namespace sluice::twin {

/// Strides are in elements, of the second dimension and so on.
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
/// Error invalid_argument: the rule of the documents that the map breaks.
Result<void> check_gather_map(const GatherMap& map);

/// The coordinates of an instruction: the first pixel, before the offsets.
struct GatherAt {
  i64 channel = 0;
  i64 pixel[3] = {};
  i64 image = 0;
};
/// A pixel of the box: its first element in the tensor, and how many channels lie inside. A load brings zeros
/// for the others; a store leaves them out.
struct GatherRow {
  i64 element = 0;
  int channels = 0;
};

/// The rows that a load brings, in the order of the box. `map` has passed check_gather_map(). Errors
/// invalid_argument: coordinates or offsets that the engine does not take.
Result<void> gather_load(const GatherMap& map, const GatherAt& at, const u16* offsets,
                         std::vector<GatherRow>& rows);
/// The rows that a store with im2col_no_offs writes.
Result<void> gather_store(const GatherMap& map, const GatherAt& at, std::vector<GatherRow>& rows);

}  // namespace sluice::twin
