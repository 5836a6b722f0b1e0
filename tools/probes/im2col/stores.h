// SPDX-License-Identifier: Apache-2.0
// Stores in TMA's im2col_no_offs mode: one box, or as many as the SMs can.
#pragma once

#include "maps.h"

namespace probe {

/// Stores, or adds, one box of g.pixels rows of 128 bytes, given row by row without a swizzle.
void store_box(const CUtensorMap& map, const Geometry& g, const Start& start, bool add,
               const unsigned char* device_rows);

enum class StoreKind { tiled, im2col, im2col_add };
struct StoreRate {
  double clocks_per_row, bytes_per_ns;
};
/// All SMs store boxes of 64 rows, each to its own place, `boxes_each` per CTA. `positions`: along w and h.
StoreRate store_rate(const CUtensorMap& map, StoreKind kind, const int (&positions)[2], int boxes_each);

}  // namespace probe
