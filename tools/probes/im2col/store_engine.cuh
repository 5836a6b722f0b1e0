// SPDX-License-Identifier: Apache-2.0
// im2col_no_offs stores and adds.
#pragma once

#include "engine.cuh"

namespace probe {

// cp.async.bulk.tensor.{3,4,5}d.global.shared::cta.im2col_no_offs, or its .add
template <int kSpatial, bool kAdd>
SLUICE_DEVICE void store_im2col(const CUtensorMap& map, int c, const Pixel& p, u32 source) {
  if constexpr (kSpatial == 1 && !kAdd)
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map),
        "r"(source), "r"(c), "r"(p.w), "r"(p.n)
        : "memory");
  else if constexpr (kSpatial == 2 && !kAdd)
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4, %5}], "
        "[%1];" ::"l"(&map),
        "r"(source), "r"(c), "r"(p.w), "r"(p.h), "r"(p.n)
        : "memory");
  else if constexpr (!kAdd)
    asm volatile(
        "cp.async.bulk.tensor.5d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4, %5, %6}], "
        "[%1];" ::"l"(&map),
        "r"(source), "r"(c), "r"(p.w), "r"(p.h), "r"(p.d), "r"(p.n)
        : "memory");
  else if constexpr (kSpatial == 1)
    asm volatile(
        "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.im2col_no_offs.bulk_group [%0, {%2, %3, %4}], "
        "[%1];" ::"l"(&map),
        "r"(source), "r"(c), "r"(p.w), "r"(p.n)
        : "memory");
  else if constexpr (kSpatial == 2)
    asm volatile(
        "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.im2col_no_offs.bulk_group "
        "[%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
        "r"(source), "r"(c), "r"(p.w), "r"(p.h), "r"(p.n)
        : "memory");
  else
    asm volatile(
        "cp.reduce.async.bulk.tensor.5d.global.shared::cta.add.im2col_no_offs.bulk_group "
        "[%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(&map),
        "r"(source), "r"(c), "r"(p.w), "r"(p.h), "r"(p.d), "r"(p.n)
        : "memory");
}

SLUICE_DEVICE void store_tiled(const CUtensorMap& map, int c, int row, u32 source) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map),
               "r"(source), "r"(c), "r"(row)
               : "memory");
}

/// Stores, or adds, one box of g.pixels rows of 128 bytes, given row by row without a swizzle.
void store_box(const CUtensorMap& map, const Geometry& g, const Start& start, bool add,
               const unsigned char* device_rows);

enum class StoreKind { tiled, im2col, im2col_add };
struct StoreRate {
  double clocks_per_row, bytes_per_ns;
};
/// All SMs store boxes of 64 rows to places of their own, `boxes_each` a CTA. `g`: for the im2col kinds.
StoreRate store_rate(const CUtensorMap& map, StoreKind kind, const Geometry& g, int positions[2], int boxes_each);

}  // namespace probe
