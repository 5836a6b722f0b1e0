// SPDX-License-Identifier: Apache-2.0
// The convolution by its definition. A pixel of y, a tap and a pixel of x belong together if along each axis
//   position in x = position in y * stride - padding + tap * dilation
// and that position is inside x. Each such triple adds one term to each of the three products:
//   fprop   y[pixel of y][f]  += x[pixel of x][c]  * w[f][tap][c]
//   dgrad   dx[pixel of x][c] += dy[pixel of y][f] * w[f][tap][c]
//   wgrad   dw[f][tap][c]     += dy[pixel of y][f] * x[pixel of x][c]
// The sums are doubles over decoded elements, so whole numbers below 2^53 are exact. Invariant: of
// spec/conv.h it uses only the fields of Conv, because it is used to check that header's arithmetic. Memory
// between pixels or outside x is never read. Called by tests and by the host twin.
#pragma once

#include <vector>

#include <sluice/reference/epilogue.h>

namespace sluice {

/// Returns one sum per element of the result, packed: pixels x channels, or filters x taps x channels
/// (wgrad). `buffers.a` and `buffers.b` are x and w (fprop), dy and w (dgrad), dy and x (wgrad).
std::vector<double> conv_sums(const Problem& problem, const HostBuffers& buffers);
/// Returns the sums of the absolute values of the same products, for error bounds.
std::vector<double> conv_magnitudes(const Problem& problem, const HostBuffers& buffers);

/// Computes all of y, dx or dw, each element rounded once. Of `problem` it uses only `conv`, the types and
/// the epilogue. So `problem` may be the matrix product that conv_problem.h made, with `conv` set again.
void reference_conv(const Problem& problem, const HostBuffers& buffers, float alpha, float beta);

}  // namespace sluice
