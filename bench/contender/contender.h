// SPDX-License-Identifier: Apache-2.0
// A contender is a kernel that computes the problem and is timed: ours or another library's. It enqueues
// without waiting, so it can be captured into a graph. Made by sluice_contender.cc, cublaslt_problem.cc and
// conv_peers.cc; timed by measure.cc.
#pragma once

#include <functional>
#include <string>

#include <sluice/gemm.h>

namespace sluice::bench {

struct Contender {
  std::string name;    // key in tables and JSON, such as "sluice" or "cuBLASLt best"
  std::string detail;  // name of the kernel or algorithm
  std::function<Result<void>(int copy, Stream stream)> launch;  // runs on operand set number `copy`
  std::function<Result<void>(int copy)> refilled =
      {};                   // to be called after new values are written to set `copy`; empty: not needed
  bool unit_alpha = false;  // true: only alpha = 1 is supported, so the exact check uses it
  // Largest absolute error of an approximate activation, such as cuBLASLt's GELU.
  double activation_error = 0;
};

}  // namespace sluice::bench
