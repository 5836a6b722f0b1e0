// SPDX-License-Identifier: Apache-2.0
// Stores and reductions (.add) in TMA's im2col_no_offs mode.
#pragma once

#include "engine.cuh"

namespace probe {

// cp.async.bulk.tensor.{3,4,5}d.global.shared::cta.im2col_no_offs, or its .add form.
template <int kSpatial, bool kAdd>
SLUICE_DEVICE void store_im2col(const CUtensorMap& map, int c, const Pixel& p, u32 source) {
  if constexpr (kSpatial == 1 && !kAdd)
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4}], [%1];" ::
            "l"(&map),
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

}  // namespace probe
