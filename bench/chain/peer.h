// SPDX-License-Identifier: Apache-2.0
// Times a chain's steps with cuBLASLt's products in place of ours, without overlap. Each product uses the
// algorithm that is fastest when it runs alone. Used by chain/session.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/chain/data.h"
#include "bench/contender/cublaslt_problem.h"

namespace sluice::bench {

class ChainPeer {
 public:
  /// Times all cuBLASLt algorithms for each of the four products and keeps the fastest. `data` and `lab` must
  /// outlive this. Errors: toolchain (no cuBLASLt), invalid_type (cuBLASLt lacks such a product, or weights
  /// are packed).
  static Result<ChainPeer> create(const Lab& lab, const ChainData& data);

  /// Enqueues the steps of `off`, with cuBLASLt in place of our products. `off` is a chain of `data` without
  /// overlap.
  Result<void> enqueue(const Chain& off, Stream stream) const;
  /// Names the algorithm of each product: "qkv #2 algo 66 ...; o ...".
  const std::string& detail() const { return detail_; }

 private:
  explicit ChainPeer(const Lab& lab) : workspace_(lab.workspace) {}
  struct Product {
    std::shared_ptr<const CublasLtProblem> problem;
    int algorithm = 0;
  };
  std::vector<Product> products_;
  Workspace workspace_;
  std::string detail_;
  int layers_ = 1;
};

}  // namespace sluice::bench
