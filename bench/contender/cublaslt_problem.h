// SPDX-License-Identifier: Apache-2.0
// One problem in cuBLASLt's terms: descriptors for each set of operands, and the algorithms that its
// heuristic returns. cuBLASLt is column-major, so it computes our row-major D = A B as D^T = B^T A^T. Its "A"
// is our B, and its rows are our n.
#pragma once

#include <span>
#include <vector>

#include "bench/contender/contender.h"
#include "bench/contender/peer_scales.h"
#include "bench/lab.h"

namespace sluice::bench {

class CublasLtProblem {
 public:
  /// The operands must outlive this. Errors: invalid_type (cuBLASLt lacks such a product; the message says
  /// why), driver (cuBLASLt refused it).
  static Result<std::shared_ptr<const CublasLtProblem>> create(const Lab& lab,
                                                               std::span<const ProblemData> copies);
  ~CublasLtProblem();
  CublasLtProblem(const CublasLtProblem&) = delete;
  CublasLtProblem& operator=(const CublasLtProblem&) = delete;

  /// Number of algorithms that the heuristic returned. Algorithm 0 is its best guess.
  int algorithms() const { return static_cast<int>(found_.size()); }
  /// Returns for example "algo 66 tile 5 stages 36 split 1".
  std::string algorithm_text(int algorithm) const;
  Result<void> launch(int algorithm, int copy, Stream stream) const;
  /// Launches with A, C and D of `args`. Scales and bias are those of operand set `copy`.
  Result<void> launch(int algorithm, int copy, const gemm::Args& args, Stream stream) const;
  /// Copies the block scales of an operand set again, after its values changed. Waits for the device.
  Result<void> copy_scales(int copy) const;
  /// Says how cuBLASLt's epilogue differs from ours; "" if it does not.
  const std::string& caveat() const { return caveat_; }

 private:
  explicit CublasLtProblem(const Lab& lab) : lab_(lab) {}
  Result<void> make_layouts(const Problem& problem);
  Result<void> make_desc(const Problem& problem, const ProblemData& data, cublasLtMatmulDesc_t& desc);
  Result<void> ask_heuristic();

  const Lab& lab_;
  std::span<const ProblemData> copies_;
  std::vector<PeerScales> scales_;  // block scales, one entry per operand set; empty without block scales
  // One per operand set, because a descriptor holds the pointers to scales and bias.
  std::vector<cublasLtMatmulDesc_t> descs_;
  cublasLtMatrixLayout_t left_ = nullptr, right_ = nullptr, c_ = nullptr, d_ = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> found_;
  std::string caveat_;
};

/// Makes the contender that runs one algorithm. It shares ownership of the problem.
Contender cublaslt_contender(std::shared_ptr<const CublasLtProblem> problem, int algorithm,
                             const std::string& name);

}  // namespace sluice::bench
