// SPDX-License-Identifier: Apache-2.0
// Something that computes the problem and is timed: a kernel of ours or of a peer. Enqueues, never waits, and
// may be captured into a graph. Made by sluice_contender.cc and cublaslt_problem.cc, timed by measure.cc.
#pragma once

#include <functional>
#include <string>

#include <sluice/gemm.h>

namespace sluice::bench {

struct Contender {
  std::string name;    // "sluice", "cuBLASLt best": the key in tables and JSON
  std::string detail;  // which kernel or algorithm
  std::function<Result<void>(int copy, Stream stream)> launch;  // on the copy-th set of operands
  std::function<Result<void>(int copy)> refilled =
      {};                       // the copy-th set has other values; empty: it reads them itself
  double activation_error = 0;  // absolute, of a peer that approximates
};

}  // namespace sluice::bench
