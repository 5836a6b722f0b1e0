// SPDX-License-Identifier: Apache-2.0
// A problem: everything that a caller specifies about one product, and nothing about how it is computed.
//   D[m,n] = act(alpha * scale_a * scale_b * sum_k A[m,k] B[k,n] + beta * C[m,n] + bias[n])
// for each matrix of `batch`, or D += the product (epilogue.update). n is the number of columns of B; a gated
// D (epilogue.gated) has half as many columns. Sizes and strides are part of the problem, because tensor maps
// contain them; pointers, alpha and beta are not (Args).
#pragma once

#include <sluice/spec/conv.h>
#include <sluice/spec/epilogue.h>
#include <sluice/spec/groups.h>
#include <sluice/spec/packing.h>

namespace sluice {

/// The index of an input that is contiguous in memory. k: A is row-major m x k, and B is stored n x k
/// (torch's `x @ w.T`, "TN" of cuBLAS and CUTLASS). mn: A is stored k x m, and B is stored k x n. mn is only
/// for 16-bit types, because WGMMA takes fp8 operands K-major.
enum class Major : u8 { k, mn };

/// How an fp8 product is accumulated. promoted: sums of 128 of k are added to fp32 registers. fast:
/// everything in the tensor core's accumulator, which keeps 13 fraction bits (docs/numerics.md). Sums of
/// 16-bit inputs are in fp32 either way.
enum class Accumulate : u8 { fast, promoted };

/// A matrix. Strides are in elements. ld: from one row (Major::k) or one k (Major::mn) to the next; 0: no
/// gaps. batch_stride: from one matrix of the batch to the next; 0: no gaps.
struct Matrix {
  DType type = DType::bf16;
  Major major = Major::k;  // mn: D is stored n x m. Callers leave k for C and D, which are row-major
  i64 ld = 0;
  i64 batch_stride = 0;
  bool unaligned = false;  // A, B and D: the address need only be a multiple of the element, not of 16 bytes
  // B only: its memory is a blob of packed weights (docs/packing.md). `type` is A's: what codes become.
  WeightFormat packed = kNotPacked;

  constexpr bool operator==(const Matrix&) const = default;
};

struct Problem {
  i64 m = 0;
  i64 n = 0;
  i64 k = 0;
  i64 batch = 1;
  Matrix a{};
  Matrix b{};
  Matrix c{};  // used only with epilogue.residual; its type is epilogue.c_type
  Matrix d{};
  Epilogue epilogue{};
  Accumulate accumulate = Accumulate::promoted;  // has no effect on 16-bit inputs (is_promoted)
  /// true: results are bit-identical from run to run. false: slices of a split product may be added to D in
  /// any order, with update = add only; everything else is deterministic anyway.
  bool deterministic = true;
  /// If it has an op, the problem is a convolution's product: all sizes, layouts and strides follow from it
  /// (spec/conv_problem.h).
  Conv conv{};
  /// Packed weights, and up to 8 rows of bf16: each row of A is divided by its root mean square and
  /// multiplied by gamma (Args) before the product.
  bool norm_a = false;
  /// With a kind: rows of A, C and D belong to groups, and each group has a matrix of B, a vector of scale_b
  /// and a bias of its own. `batch` is the number of groups; A, C and D are one matrix of m rows, A with
  /// slots of m / pitch. Rows outside of all groups are not computed. With groups along k, A and B are one
  /// matrix each, and each group has a matrix of C and D.
  Groups groups{};
  /// How block scales of A are stored. 0: by rows, without gaps. Else by columns, as DeepGEMM's quantisers
  /// do it: the scales of a block of k, one per row, are neighbours. So many elements lie from one block to
  /// the next. Matrices of a batch follow each other. Groups by counts have a matrix each, of groups.pitch
  /// rows.
  i64 scale_a_ld = 0;

  constexpr bool operator==(const Problem&) const = default;
};

/// True if the kernel reads a table of groups.
SLUICE_HD constexpr bool reads_table(const Problem& p) {
  return p.groups.kind != GroupKind::none;
}
/// True if the rows of D belong to groups.
SLUICE_HD constexpr bool has_groups(const Problem& p) {
  return groups_rows(p.groups.kind);
}
/// True if the table holds the group of each row.
SLUICE_HD constexpr bool by_slots(const Problem& p) {
  return p.groups.kind == GroupKind::slots;
}
/// Numbers of the table of groups.
SLUICE_HD constexpr i64 table_size(const Problem& p) {
  return !reads_table(p) ? 0 : by_slots(p) ? p.m : p.batch;
}
/// The row of A that a row of D reads, and the number of rows of A. Checks refuse a pitch below 1.
SLUICE_HD constexpr i64 a_row(const Problem& p, i64 row) {
  return by_slots(p) ? row / max(p.groups.pitch, 1) : row;
}
SLUICE_HD constexpr i64 a_rows(const Problem& p) {
  return by_slots(p) ? ceil_div(p.m, i64{max(p.groups.pitch, 1)}) : p.m;
}
/// True if each group is summed over its own part of k.
SLUICE_HD constexpr bool sums_groups(const Problem& p) {
  return p.groups.kind == GroupKind::along_k;
}
/// The extent that groups divide.
SLUICE_HD constexpr i64 group_total(const Problem& p) {
  return sums_groups(p) ? p.k : p.m;
}
/// Matrices of A, of B, and of C and D.
SLUICE_HD constexpr i64 a_matrices(const Problem& p) {
  return reads_table(p) ? 1 : p.batch;
}
SLUICE_HD constexpr i64 b_matrices(const Problem& p) {
  return sums_groups(p) ? 1 : p.batch;
}
SLUICE_HD constexpr i64 d_matrices(const Problem& p) {
  return has_groups(p) ? 1 : p.batch;
}
/// Vectors of scale_b and of a bias, which a plain batch shares.
SLUICE_HD constexpr i64 column_vectors(const Problem& p) {
  return has_groups(p) ? p.batch : 1;
}

/// True if B's memory is packed weights.
SLUICE_HD constexpr bool is_packed(const Problem& p) {
  return p.b.packed.type != WeightType::none;
}

/// True if sums of 128 of k are added up outside the tensor core. Block scales need that regardless of
/// `accumulate`. Sums of 16-bit inputs are fp32 already, so that `accumulate` has no effect.
SLUICE_HD constexpr bool is_promoted(const Problem& p) {
  return is_fp8(p.a.type) && (p.accumulate == Accumulate::promoted || is_block_scaled(p.epilogue));
}

/// True if split-K slices may be added to D in any order.
SLUICE_HD constexpr bool adds_in_any_order(const Problem& p) {
  return adds(p.epilogue) && !p.deterministic;
}
/// True if there is nothing to add, so that D stays unchanged and nothing is launched.
SLUICE_HD constexpr bool leaves_d(const Problem& p, float alpha) {
  return adds(p.epilogue) && (p.k == 0 || alpha == 0.0f);
}
/// True if no launch of this problem has any work, whatever its arguments: m, n or batch is 0, or k is 0 and
/// the product is added to D.
SLUICE_HD constexpr bool is_empty(const Problem& p) {
  return p.m == 0 || p.n == 0 || p.batch == 0 || leaves_d(p, 1.0f);
}

/// Blocks of 128 along k or n.
SLUICE_HD constexpr i64 scale_blocks(i64 extent) {
  return ceil_div(extent, i64{kScaleBlock});
}
/// True if block scales of A are stored by columns.
SLUICE_HD constexpr bool scales_by_columns(const Problem& p) {
  return p.scale_a_ld != 0;
}
/// True if each group has its own matrix of scales of A.
SLUICE_HD constexpr bool groups_have_scales(const Problem& p) {
  return scales_by_columns(p) && p.groups.kind == GroupKind::counts;
}
/// Block scales of A by columns: matrices, and the rows of each.
SLUICE_HD constexpr i64 scale_a_matrices(const Problem& p) {
  return groups_have_scales(p) ? p.batch : a_matrices(p);
}
SLUICE_HD constexpr i64 scale_a_rows(const Problem& p) {
  return groups_have_scales(p) && p.groups.pitch < p.m ? p.groups.pitch : a_rows(p);
}
/// Number of fp32 values in a caller's scale_a and scale_b, gaps between columns included.
SLUICE_HD constexpr i64 scale_a_count(const Problem& p) {
  switch (p.epilogue.scale_a) {
    case ScaleMode::none: return 0;
    case ScaleMode::tensor: return 1;
    case ScaleMode::vector: return a_rows(p);
    case ScaleMode::block: break;
    case ScaleMode::vector128: return 0;  // B alone has them
  }
  if (!scales_by_columns(p)) return a_matrices(p) * a_rows(p) * scale_blocks(p.k);
  const i64 columns = scale_a_matrices(p) * scale_blocks(p.k), rows = scale_a_rows(p);
  return columns == 0 || rows == 0 ? 0 : (columns - 1) * p.scale_a_ld + rows;
}
SLUICE_HD constexpr i64 scale_b_count(const Problem& p) {
  switch (p.epilogue.scale_b) {
    case ScaleMode::none: return 0;
    case ScaleMode::tensor: return 1;
    case ScaleMode::vector: return column_vectors(p) * p.n;
    case ScaleMode::block: return p.batch * scale_blocks(p.n) * scale_blocks(p.k);
    case ScaleMode::vector128: return p.batch * scale_blocks(p.k) * p.n;
  }
  return 0;
}
/// One past the last row of A whose scales lie in the matrix of scales of `batch`.
SLUICE_HD constexpr i64 scale_a_row_end(const Problem& p, i64 batch) {
  const i64 end = (batch + 1) * p.groups.pitch;
  return groups_have_scales(p) && end < p.m ? end : p.m;
}
/// Index of the block scale of the elements of A and B behind D[row][column], at k.
SLUICE_HD constexpr i64 block_scale_a_index(const Problem& p, i64 batch, i64 d_row, i64 k) {
  const i64 row = a_row(p, d_row);
  if (scales_by_columns(p)) {
    const i64 matrix = has_groups(p) && !groups_have_scales(p) ? 0 : batch;
    const i64 first = groups_have_scales(p) ? batch * p.groups.pitch : 0;
    return (matrix * scale_blocks(p.k) + k / kScaleBlock) * p.scale_a_ld + row - first;
  }
  return ((has_groups(p) ? 0 : batch) * p.m + row) * scale_blocks(p.k) + k / kScaleBlock;
}
/// Number of scales that the kernel writes beside D, and the index of one. The product that reads D as its A
/// finds them at the same indices.
SLUICE_HD constexpr i64 scale_out_count(const Problem& p) {
  return writes_scales(p.epilogue) ? d_matrices(p) * p.m * scale_blocks(outputs_of(p.epilogue, p.n)) : 0;
}
SLUICE_HD constexpr i64 scale_out_index(const Problem& p, i64 batch, i64 row, i64 column) {
  return ((has_groups(p) ? 0 : batch) * p.m + row) * scale_blocks(outputs_of(p.epilogue, p.n)) +
         column / kScaleBlock;
}
/// Number of factors of rows, which a plain batch shares.
SLUICE_HD constexpr i64 row_factor_count(const Problem& p) {
  return p.epilogue.row_factors ? p.m : 0;
}
/// Index of the scale and of the bias of a column.
SLUICE_HD constexpr i64 column_index(const Problem& p, i64 batch, i64 column) {
  return has_groups(p) ? batch * p.n + column : column;
}
SLUICE_HD constexpr i64 block_scale_b_index(const Problem& p, i64 batch, i64 column, i64 k) {
  if (scales_each_column(p.epilogue)) return (batch * scale_blocks(p.k) + k / kScaleBlock) * p.n + column;
  return (batch * scale_blocks(p.n) + column / kScaleBlock) * scale_blocks(p.k) + k / kScaleBlock;
}

/// Length of the contiguous index of A (rows = m) or B (rows = n).
SLUICE_HD constexpr i64 inner_extent(const Matrix& x, i64 rows, i64 k) {
  return x.major == Major::k ? k : rows;
}
/// Length of the other index, which is strided.
SLUICE_HD constexpr i64 outer_extent(const Matrix& x, i64 rows, i64 k) {
  return x.major == Major::k ? rows : k;
}
SLUICE_HD constexpr i64 ld_of(const Matrix& x, i64 inner) {
  return x.ld != 0 ? x.ld : inner;
}
SLUICE_HD constexpr i64 batch_stride_of(const Matrix& x, i64 inner, i64 outer) {
  return x.batch_stride != 0 ? x.batch_stride : ld_of(x, inner) * outer;
}

/// TMA accesses units of 16 bytes: addresses, tensor map strides and inner box sizes are multiples (CUDA
/// driver API, cuTensorMapEncodeTiled). The copy engine cannot write fewer bytes
/// (docs/findings/tma-store-tail.md).
inline constexpr i64 kTmaUnit = 16;
/// Strides of a tensor map must be below this, in bytes.
inline constexpr i64 kTmaStrideLimit = i64{1} << 40;
/// True if a tensor map can describe the matrix. `outer`: its rows in memory; its strides must be set.
SLUICE_HD constexpr bool tma_addresses(const Matrix& x, i64 outer, i64 batch) {
  const i64 unit = kTmaUnit / bytes_of(x.type), limit = kTmaStrideLimit / bytes_of(x.type);
  const auto steps = [&](i64 count, i64 stride) {
    return count <= 1 || (stride % unit == 0 && stride < limit);
  };
  return !x.unaligned && steps(outer, x.ld) && steps(batch, x.batch_stride);
}

/// The product with A and B swapped: D^T = B A^T, in the memory of D. `p` must have its strides set, must not
/// be a gathering convolution, and must have no C, which would need transposing too.
SLUICE_HD constexpr Problem transposed(Problem p) {
  const Problem old = p;
  p.m = old.n;
  p.n = old.m;
  p.a = old.b;
  p.b = old.a;
  p.d.major = old.d.major == Major::k ? Major::mn : Major::k;
  p.epilogue.scale_a = old.epilogue.scale_b;
  p.epilogue.scale_b = old.epilogue.scale_a;
  if (old.epilogue.bias != Bias::none)
    p.epilogue.bias = old.epilogue.bias == Bias::column ? Bias::row : Bias::column;
  return p;
}

/// True for a product made by transposed(). D of callers is always row-major.
SLUICE_HD constexpr bool is_transposed(const Problem& p) {
  return p.d.major == Major::mn;
}

/// Columns of D.
SLUICE_HD constexpr i64 d_columns(const Problem& p) {
  return outputs_of(p.epilogue, p.n);
}

/// The problem with every stride of 0 ("no gaps") replaced by its value; planning and launching use this
/// form. A convolution's strides are always set.
SLUICE_HD constexpr Problem with_strides(Problem p) {
  if (is_conv(p.conv)) return p;
  if (is_packed(p)) {  // one matrix, whose B has no rows in memory
    p.a.ld = ld_of(p.a, p.k);
    p.c.ld = ld_of(p.c, p.n);
    p.d.ld = ld_of(p.d, d_columns(p));
    return p;
  }
  const i64 a_inner = inner_extent(p.a, a_rows(p), p.k), a_outer = outer_extent(p.a, a_rows(p), p.k);
  const i64 b_inner = inner_extent(p.b, p.n, p.k), b_outer = outer_extent(p.b, p.n, p.k);
  p.a.batch_stride = batch_stride_of(p.a, a_inner, a_outer);
  p.a.ld = ld_of(p.a, a_inner);
  p.b.batch_stride = batch_stride_of(p.b, b_inner, b_outer);
  p.b.ld = ld_of(p.b, b_inner);
  p.c.batch_stride = batch_stride_of(p.c, p.n, p.m);
  p.c.ld = ld_of(p.c, p.n);
  p.d.batch_stride = batch_stride_of(p.d, d_columns(p), p.m);
  p.d.ld = ld_of(p.d, d_columns(p));
  if (has_groups(p)) p.a.batch_stride = p.c.batch_stride = p.d.batch_stride = 0;
  if (sums_groups(p)) p.a.batch_stride = p.b.batch_stride = 0;
  return p;
}

SLUICE_HD constexpr const char* name_of(Major major) {
  return major == Major::k ? "k" : "mn";
}
SLUICE_HD constexpr const char* name_of(Accumulate accumulate) {
  return accumulate == Accumulate::fast ? "fast" : "promoted";
}

}  // namespace sluice
