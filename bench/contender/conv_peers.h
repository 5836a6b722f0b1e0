// SPDX-License-Identifier: Apache-2.0
// Makes contenders of cuDNN's plans for a convolution, on the bench's own operands. If the result is added to
// D (main_grad of a weight), cuDNN writes a result in the inputs' type, and a second kernel adds it, as
// frameworks do. Called by session.cc.
#pragma once

#include <span>
#include <vector>

#include "bench/contender/contender.h"
#include "bench/contender/cudnn_problem.h"
#include "bench/lab.h"

namespace sluice::bench {

/// Describes the convolution in cuDNN's terms. Error invalid_type: the epilogue has no counterpart that is
/// compared; the message says why.
Result<CudnnConvolution> cudnn_convolution(const Conv& conv, const Problem& problem, float alpha);

/// All cuDNN plans of one convolution, and the device memory that they share.
class ConvPeers {
 public:
  /// The operands must outlive this. Errors: those of cudnn_convolution; toolchain (no cuDNN); driver (cuDNN
  /// refused, or out of memory).
  static Result<ConvPeers> create(const Lab& lab, const Conv& conv, std::span<const ProblemData> copies);

  int count() const { return static_cast<int>(found_.plans.size()); }
  bool deterministic(int plan) const { return found_.plans[static_cast<size_t>(plan)].deterministic(); }
  /// Lists the proposals and engines that cuDNN refused; "" if there are none.
  std::string refusals() const;
  /// Makes the contender that runs one plan. It must not outlive this.
  Contender contender(int plan, const std::string& name) const;

 private:
  ConvPeers(const Lab& lab, const Conv& conv, std::span<const ProblemData> copies)
      : lab_(&lab), conv_(conv), copies_(copies) {}

  const Lab* lab_;
  Conv conv_;
  std::span<const ProblemData> copies_;
  CudnnPlans found_;
  DeviceBuffer workspace_;
  DeviceBuffer product_;                // with Update::add: cuDNN's result, before it is added to D
  std::shared_ptr<const Module> adds_;  // the kernel that adds it to D
};

/// Source text of the kernel that adds a 16-bit product to an fp32 D.
std::string add_unit_text(DType type);

}  // namespace sluice::bench
