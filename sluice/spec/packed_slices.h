// SPDX-License-Identifier: Apache-2.0
// Slices of a blob. A slice is itself a blob, so a shard of a tensor-parallel layer is copied, not packed
// again. A slice of rows is one contiguous copy. A slice of k is one strided copy with one piece per strip,
// and a second copy if scales belong to whole rows (cudaMemcpy2D, or a loop). Used by
// reference/packed_weights.cc and by model loaders.
#pragma once

#include <sluice/spec/packing.h>

namespace sluice {

/// A copy of `height` pieces of `width` bytes, with a pitch in each blob.
struct SliceCopy {
  i64 source_offset = 0, target_offset = 0;
  i64 source_pitch = 0, target_pitch = 0;
  i64 width = 0, height = 0;

  constexpr bool operator==(const SliceCopy&) const = default;
};

/// Rows or k in [begin, end).
struct SliceRange {
  i64 begin = 0, end = 0;
};

/// The rule that a slice of `extent` breaks, as text; nullptr if it is valid. `unit`: kStripRows for rows,
/// kPackedTileK for k. Groups divide 128, so a slice of k never cuts one.
SLUICE_HD constexpr const char* validate_slice(SliceRange range, i64 extent, int unit) {
  if (range.begin < 0 || range.end < range.begin || range.end > extent)
    return "a slice must lie in the matrix, with begin <= end";
  if (range.begin % unit != 0)
    return unit == kStripRows ? "a slice of rows must begin at a multiple of 64"
                              : "a slice of k must begin at a multiple of 128";
  if (range.end % unit != 0 && range.end != extent)
    return unit == kStripRows ? "a slice of rows must end at a multiple of 64, or with the matrix"
                              : "a slice of k must end at a multiple of 128, or with the matrix";
  return nullptr;
}

/// Copies the blob of rows [begin, end).
SLUICE_HD constexpr SliceCopy rows_slice(const WeightFormat& f, i64 k, SliceRange rows) {
  const i64 bytes = blob_bytes(f, rows.end - rows.begin, k);
  return {rows.begin / kStripRows * strip_bytes(f, k), 0, bytes, bytes, bytes, 1};
}
/// Copies the tiles of a slice of k, strip by strip.
SLUICE_HD constexpr SliceCopy k_slice_tiles(const WeightFormat& f, i64 n, i64 k, SliceRange part) {
  return {part.begin / kPackedTileK * tile_bytes(f),
          0,
          strip_bytes(f, k),
          strip_bytes(f, part.end - part.begin),
          packed_k_tiles(part.end - part.begin) * tile_bytes(f),
          part.end > part.begin ? strip_count(n) : 0};
}
/// Copies the scales and zeros of whole rows, which every slice of k needs. width is 0 if scales belong to
/// groups.
SLUICE_HD constexpr SliceCopy k_slice_row_scales(const WeightFormat& f, i64 n, i64 k, SliceRange part) {
  const i64 part_k = part.end - part.begin;
  return {
      row_scales_offset(f, k, 0), row_scales_offset(f, part_k, 0),        strip_bytes(f, k),
      strip_bytes(f, part_k),     row_scale_bytes(f) + row_zero_bytes(f), part_k > 0 ? strip_count(n) : 0};
}

}  // namespace sluice
