// SPDX-License-Identifier: Apache-2.0
// The peer of a chain: the same steps without overlap, with cuBLASLt's products in place of ours. Each
// product uses the algorithm that is fastest when it runs alone. Used by chain/session.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/chain/data.h"
#include "bench/contender/cublaslt_problem.h"

namespace sluice::bench {

class ChainPeer {
 public:
  /// Times all algorithms of the four products. `data` and `lab` are borrowed. Errors: toolchain (no
  /// cuBLASLt), invalid_type (it has no such product, or weights are packed).
  static Result<ChainPeer> create(const Lab& lab, const ChainData& data);

  /// Enqueues all steps of `off`, a chain of `data` with the overlap off.
  Result<void> enqueue(const Chain& off, Stream stream) const;
  /// "qkv #2 algo 66 ...; o ..."
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
