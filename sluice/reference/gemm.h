// SPDX-License-Identifier: Apache-2.0
// The product by its definition: one sum in double per element of D, without blocking or reordering.
//   D[m,n] = act(alpha * scale_a * scale_b * sum_k A[m,k] B[k,n] + beta * C[m,n] + bias[n])
// With Update::add:
//   D += alpha * scale_a * scale_b * sum_k A[m,k] B[k,n]
// Gated: D[m,j] = act(y[m,j]) * y[m,n/2+j], where y is the value before act. Except with Update::add, the
// result is multiplied by its row's factor and divided by scale_d. Block scales of A and B apply inside the
// sum:
//   sum_k scale_a[m, k / 128] scale_b[n / 128, k / 128] A[m,k] B[k,n]
// With block scales of D, the result is rounded to fp32 and quantised as in quantize.h.
// With groups, a row takes the matrix of B, the scales of columns and the bias of its group; rows of no group
// are not written.
// Invariant: reads C only if beta != 0, A and B only if alpha != 0, D only with Update::add, and never
// padding. Writes only elements of D. Called by tests and by the host twin.
#pragma once

#include <functional>
#include <vector>

#include <sluice/reference/epilogue.h>

namespace sluice {

/// The position of an element in a batch of matrices.
struct ElementIndex {
  i64 batch = 0;
  i64 row = 0;
  i64 column = 0;
};

/// Returns the index of an element in its array; that of A by the row of D. Requires a `problem` with its
/// strides set (with_strides).
constexpr i64 a_index(const Problem& p, i64 batch, i64 row, i64 k) {
  const i64 a = a_row(p, row);
  return batch * p.a.batch_stride + (p.a.major == Major::k ? a * p.a.ld + k : k * p.a.ld + a);
}
constexpr i64 b_index(const Problem& p, i64 batch, i64 column, i64 k) {
  return batch * p.b.batch_stride + (p.b.major == Major::k ? column * p.b.ld + k : k * p.b.ld + column);
}
constexpr i64 c_index(const Problem& p, const ElementIndex& at) {
  return at.batch * p.c.batch_stride + at.row * p.c.ld + at.column;
}
constexpr i64 d_index(const Problem& p, const ElementIndex& at) {
  return at.batch * p.d.batch_stride +
         (p.d.major == Major::k ? at.row * p.d.ld + at.column : at.column * p.d.ld + at.row);
}

/// Returns the indices with which the element of A B at `at` reads its vectors, C and D.
OutputPlace output_place(const Problem& problem, const ElementIndex& at);

/// Returns the rows, or the part of k, of each group; `numbers`: the table, not of slots.
std::vector<GroupRows> rows_of_groups(const Problem& problem, const int* numbers);
/// Visits the rows of D that are stored: all of each matrix, or those of each group.
void for_each_row(const Problem& problem, const int* numbers,
                  const std::function<void(i64 batch, i64 row)>& visit);
/// Returns the part of k that the sums of a matrix of D have.
GroupRows k_range_of(const Problem& problem, const int* numbers, i64 batch);

/// Returns one element of D before it is rounded to D's type, or quantised by a block scale; with Update::add
/// it includes D's old value.
/// Requires a `problem` with its strides set (with_strides) and without im2col.
double reference_element(const Problem& problem, const HostBuffers& buffers, Scalars scalars,
                         const ElementIndex& at);

/// Computes all of D, each element rounded once. Strides of 0 mean packed, as in a Problem. Use
/// reference_conv() for the product of a convolution.
void reference_gemm(const Problem& problem, const HostBuffers& buffers, float alpha, float beta);

}  // namespace sluice
