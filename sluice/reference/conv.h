// SPDX-License-Identifier: Apache-2.0
// The convolution by its definition: a pixel of y and a pixel of x meet at a tap if along each axis
//   place in x = place in y * stride - padding + tap * dilation
// and lies in x. Every meeting adds to each of the three products:
//   fprop   y[pixel of y][f]  += x[pixel of x][c]  * w[f][tap][c]
//   dgrad   dx[pixel of x][c] += dy[pixel of y][f] * w[f][tap][c]
//   wgrad   dw[f][tap][c]     += dy[pixel of y][f] * x[pixel of x][c]
// The sums are doubles over decoded elements, so whole numbers below 2^53 are exact. Invariant: nothing but
// the plain values of Conv is used of spec/conv.h, whose arithmetic this judges. What lies between pixels or
// outside x is never read. Called by tests and by the host twin.
#pragma once

#include <vector>

#include <sluice/reference/epilogue.h>

namespace sluice {

/// One sum for each element of the result, packed: pixels x channels, or filters x taps x channels (wgrad).
/// `buffers.a` and `buffers.b` are x and w (fprop), dy and w (dgrad), dy and x (wgrad).
std::vector<double> conv_sums(const Problem& problem, const HostBuffers& buffers);
/// Sums of the absolute values of those products, for error bounds.
std::vector<double> conv_magnitudes(const Problem& problem, const HostBuffers& buffers);

/// Computes all of y, dx or dw, each element rounded once. Of `problem` it takes `conv`, the types, the
/// epilogue and nothing else; so it may be one that conv_problem.h has lowered, with `conv` set again.
void reference_conv(const Problem& problem, const HostBuffers& buffers, float alpha, float beta);

}  // namespace sluice
