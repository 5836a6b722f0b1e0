// SPDX-License-Identifier: Apache-2.0
// A part of a blob is a blob: what a shard of a tensor-parallel layer needs is copied, not packed again. Rows
// are one copy, a part of k is one copy of as many pieces as there are strips, or two if scales are the rows'
// (cudaMemcpy2D, or a loop). Used by reference/packed_weights.cc, and by whoever loads a model.
#pragma once

#include <sluice/spec/packing.h>

namespace sluice {

/// `height` pieces of `width` bytes, a pitch apart in either blob.
struct SliceCopy {
  i64 source_offset = 0, target_offset = 0;
  i64 source_pitch = 0, target_pitch = 0;
  i64 width = 0, height = 0;

  constexpr bool operator==(const SliceCopy&) const = default;
};

/// What is copied: rows [begin, end) or k in [begin, end).
struct SliceRange {
  i64 begin = 0, end = 0;
};

/// nullptr, or the rule that a slice of `extent` breaks: `unit` is kStripRows for rows, kPackedTileK for k.
/// (Groups divide 128, so a slice of k never cuts one.)
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

/// The blob of rows [begin, end) is these bytes.
SLUICE_HD constexpr SliceCopy rows_slice(const WeightFormat& f, i64 k, SliceRange rows) {
  const i64 bytes = blob_bytes(f, rows.end - rows.begin, k);
  return {rows.begin / kStripRows * strip_bytes(f, k), 0, bytes, bytes, bytes, 1};
}
/// Of the tiles of each strip.
SLUICE_HD constexpr SliceCopy k_slice_tiles(const WeightFormat& f, i64 n, i64 k, SliceRange part) {
  return {part.begin / kPackedTileK * tile_bytes(f),
          0,
          strip_bytes(f, k),
          strip_bytes(f, part.end - part.begin),
          packed_k_tiles(part.end - part.begin) * tile_bytes(f),
          part.end > part.begin ? strip_count(n) : 0};
}
/// Of the rows' scales and zeros, which are the same for every part of k; nothing (width 0) with groups.
SLUICE_HD constexpr SliceCopy k_slice_row_scales(const WeightFormat& f, i64 n, i64 k, SliceRange part) {
  const i64 part_k = part.end - part.begin;
  return {
      row_scales_offset(f, k, 0), row_scales_offset(f, part_k, 0),        strip_bytes(f, k),
      strip_bytes(f, part_k),     row_scale_bytes(f) + row_zero_bytes(f), part_k > 0 ? strip_count(n) : 0};
}

}  // namespace sluice
