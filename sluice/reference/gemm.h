// SPDX-License-Identifier: Apache-2.0
// The product by its definition: one double sum for each element of D, no blocking, no reordering.
//   D[m,n] = act(alpha * scale_a * scale_b * sum_k A[m,k] B[k,n] + beta * C[m,n] + bias[n])
// With Update::add:
//   D += alpha * scale_a * scale_b * sum_k A[m,k] B[k,n]
// Gated, D[m,j] = act(y[m,j]) * y[m,n/2+j], where y is the value before act. All but update are divided by
// scale_d. Block scales act inside the sum:
//   sum_k scale_a[m, k / 128] scale_b[n / 128, k / 128] A[m,k] B[k,n]
// Invariant: reads exactly what the contract says is read, and writes only elements of D. C is read only if
// beta != 0, A and B only if alpha != 0, D only if it is added to, padding never. Called by tests and by the
// host twin.
#pragma once

#include <sluice/reference/epilogue.h>

namespace sluice {

/// An element of one matrix of the batch.
struct ElementIndex {
  i64 batch = 0;
  i64 row = 0;
  i64 column = 0;
};

/// Index of an element in its array. `problem` has its strides filled in (with_strides).
constexpr i64 a_index(const Problem& p, i64 batch, i64 row, i64 k) {
  return batch * p.a.batch_stride + (p.a.major == Major::k ? row * p.a.ld + k : k * p.a.ld + row);
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

/// One element of D before it is rounded to D's type; with Update::add it includes D's old value. `problem`
/// has its strides filled in and gathers nothing.
double reference_element(const Problem& problem, const HostBuffers& buffers, Scalars scalars,
                         const ElementIndex& at);

/// Computes all of D, each element rounded once. Strides of 0 mean packed, as in a Problem. The product of a
/// convolution goes to reference_conv().
void reference_gemm(const Problem& problem, const HostBuffers& buffers, float alpha, float beta);

}  // namespace sluice
