// SPDX-License-Identifier: Apache-2.0
// The tensor maps of a GEMM. device/load/tma_tile.cuh and Machine::issue_store rely on exactly these boxes:
//   operand            extents           box                                  swizzle
//   A  Major::k        {k, m, batch}     {tile.k, tile.m / cluster.n}         128
//   A  Major::mn       {m, k, batch}     {64, tile.k / cluster.n}             128
//   B  Major::k        {k, n, batch}     {tile.k, tile.n / cluster.m}         128
//   B  Major::mn       {n, k, batch}     {64, tile.k / cluster.m}             128
//   a K-major tail     as its operand    {tile.k, rows of the last box}       128
//   A's of groups      as A              {tile.k, small_box_rows}             128
//   D  (tma)           {d_columns, m, batch}  {store_columns, 64}             store_row_bytes
//   D, operands swapped    {m, n, batch}     {64, store_columns}              128
// B of a gated product is {k, 8, 2, n / 16, batch}: 8 rows of the first half of B alternate with 8 of the
// second. m, n, A and B are the kernel's (product_of), so they are exchanged if operands are swapped. A box
// is the part of a tile that one CTA loads and multicasts. The CTAs of a cluster row share a tile of A, those
// of a column a tile of B.
#pragma once

#include <sluice/run/driver/tensor_map.h>
#include <sluice/spec/loaded_rows.h>

namespace sluice {

constexpr TensorMapShape a_map_shape(const KernelConfig& c, const Problem& p) {
  const bool k_major = c.a_major == Major::k;
  return {.type = c.a,
          .inner = inner_extent(p.a, p.m, p.k),
          .outer = outer_extent(p.a, p.m, p.k),
          .batch = a_matrices(p),
          .ld = p.a.ld,
          .batch_stride = p.a.batch_stride,
          .box_inner = k_major ? c.tile.k : kMnBlock,
          .box_outer = (k_major ? c.tile.m : c.tile.k) / c.cluster.n,
          .swizzle_bytes = kSwizzleRowBytes};
}

constexpr TensorMapShape b_map_shape(const KernelConfig& c, const Problem& p) {
  const bool k_major = c.b_major == Major::k;
  return {.type = c.b,
          .inner = inner_extent(p.b, p.n, p.k),
          .outer = outer_extent(p.b, p.n, p.k),
          .batch = b_matrices(p),
          .ld = p.b.ld,
          .batch_stride = p.b.batch_stride,
          .box_inner = k_major ? c.tile.k : kMnBlock,
          .box_outer = (k_major ? c.tile.n : c.tile.k) / c.cluster.m,
          .swizzle_bytes = kSwizzleRowBytes,
          .gated = c.epilogue.gated};
}

/// Return whether the last box of K-major A, and of B, ends past the matrix, so that the smaller boxes of
/// spec/loaded_rows.h are needed. False with k = 0, where nothing is loaded, and for phases, which have no
/// smaller boxes.
constexpr bool has_tail_a(const KernelConfig& c, const Problem& p) {
  return p.k > 0 && c.load_a == Load::tma && c.a_major == Major::k && !c.conv.phased &&
         (has_groups(c) || p.m % (c.tile.m * c.cluster.m) != 0);
}
constexpr bool has_tail_b(const KernelConfig& c, const Problem& p) {
  return p.k > 0 && c.load_b == Load::tma && c.b_major == Major::k && p.n % (c.tile.n * c.cluster.n) != 0;
}
constexpr TensorMapShape a_tail_shape(const KernelConfig& c, const Problem& p) {
  TensorMapShape shape = a_map_shape(c, p);
  shape.box_outer =
      has_groups(c) ? small_box_rows(shape.box_outer) : tail_rows(static_cast<int>(p.m), shape.box_outer);
  return shape;
}
constexpr TensorMapShape b_tail_shape(const KernelConfig& c, const Problem& p) {
  TensorMapShape shape = b_map_shape(c, p);
  shape.box_outer = tail_rows(static_cast<int>(p.n), shape.box_outer, row_group(c));
  return shape;
}

constexpr TensorMapShape d_map_shape(const KernelConfig& c, const Problem& p) {
  const bool swapped = is_swapped(c);
  return {.type = c.d,
          .inner = swapped ? p.m : d_columns(p),
          .outer = swapped ? p.n : p.m,
          .batch = d_matrices(p),
          .ld = p.d.ld,
          .batch_stride = p.d.batch_stride,
          .box_inner = swapped ? kWaveRows : store_columns(c),
          .box_outer = swapped ? store_columns(c) : kWaveRows,
          .swizzle_bytes = store_row_bytes(c)};
}

}  // namespace sluice
