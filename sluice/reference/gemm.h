// SPDX-License-Identifier: Apache-2.0
// The product by its definition: one double sum for each element of D, no blocking, no reordering.
//   D[m,n] = act(alpha * scale_a * scale_b * sum_k A[m,k] B[k,n] + beta * C[m,n] + bias[n])
// or, with Update::add, D += alpha * scale_a * scale_b * sum_k A[m,k] B[k,n];
// or, gated, D[m,j] = act(that of column j, without act) * (the same of column n / 2 + j); all but the second
// over scale_d; with block scales inside the sum: sum_k scale_a[m, k / 128] scale_b[n / 128, k / 128] A[m,k]
// B[k,n]. Invariant: reads exactly what the contract says is read (C only if beta != 0, A and B only if alpha
// != 0, D only if it is added to, no padding) and writes only elements of D. Called by tests and by the host
// twin.
#pragma once

#include <sluice/spec/problem.h>

namespace sluice {

/// The operands in host memory, laid out as the problem says. Unused ones may be null.
struct HostBuffers {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
  const float* scale_a = nullptr;
  const float* scale_b = nullptr;
  const void* bias = nullptr;
  const float* scale_d = nullptr;
};

struct Scalars {
  float alpha = 1.0f;
  float beta = 0.0f;
};

/// Which element of which matrix of the batch.
struct ElementIndex {
  i64 batch = 0;
  i64 row = 0;
  i64 column = 0;
};

/// Where an element lies in its matrix, in elements. `problem` has its strides filled in (with_strides).
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

/// ReLU, exact GELU or SiLU; NaN stays NaN.
double activate(Activation activation, double x);

/// One element of D (with Update::add: what it was, and the product) before it is rounded to the type of D.
/// `problem` has its strides filled in.
double reference_element(const Problem& problem, const HostBuffers& buffers, Scalars scalars,
                         const ElementIndex& at);

/// All of D, each element rounded once. Strides of 0 mean packed, as in a Problem.
void reference_gemm(const Problem& problem, const HostBuffers& buffers, float alpha, float beta);

}  // namespace sluice
