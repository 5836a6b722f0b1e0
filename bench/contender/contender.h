// SPDX-License-Identifier: Apache-2.0
// A contender computes the problem and is timed: our kernel or a peer's. It enqueues, never waits, and can be
// captured into a graph. Made by sluice_contender.cc, cublaslt_problem.cc and conv_peers.cc, timed
// by measure.cc.
#pragma once

#include <functional>
#include <string>

#include <sluice/gemm.h>

namespace sluice::bench {

struct Contender {
  std::string name;    // "sluice", "cuBLASLt best": the key in tables and JSON
  std::string detail;  // the kernel or algorithm
  std::function<Result<void>(int copy, Stream stream)> launch;  // runs on operand set `copy`
  std::function<Result<void>(int copy)> refilled =
      {};                       // call after set `copy` got other values; empty: not needed
  bool unit_alpha = false;      // true: it supports only alpha = 1, and the exact check uses that
  double activation_error = 0;  // absolute error of a peer's approximate activation
};

}  // namespace sluice::bench
