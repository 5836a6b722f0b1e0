// SPDX-License-Identifier: Apache-2.0
// The implementation of sluice_device. Its Device keeps every prepared kernel, quantiser, norm and packer, by
// problem, and lends workspaces. It frees none of them before it is closed, because CUDA graphs may refer to
// them. All runs may fail with not_prepared: the stream is being captured, and a kernel is not loaded.
#pragma once

#include <span>

#include <sluice/c_api/companions.h>
#include <sluice/c_api/experts.h>
#include <sluice/c_api/packing.h>
#include <sluice/gemm.h>
#include <sluice/rows.h>

namespace sluice::c_api {

/// Returns all options that make_quantizers_ready(), or make_norms_ready(), prepares for an input type.
std::vector<QuantizerOptions> quantizers_of(DType input);
std::vector<NormOptions> norms_of(DType input);
/// Returns the routers, gathering quantisers and combiners of the steps around experts, for rows of a type.
struct ExpertKernels {
  std::vector<RouteOptions> routers;
  std::vector<QuantizerOptions> gatherers;
  std::vector<CombineOptions> combiners;
};
ExpertKernels experts_of(DType type);

class Session {
 public:
  explicit Session(Device device) : device_(std::move(device)) {}

  const Device& device() const { return device_; }

  /// Compiles and loads the kernels that products and convolutions need for all of `problems`. `race`: as for
  /// gemm::prepare.
  Result<void> make_ready(std::span<const Problem> problems, int race);
  /// Prepares the small set of kernels that covers every m of a range (sluice/rows.h). Ignores `problem.m`.
  Result<RowSummary> make_ready(const Problem& problem, RowRange rows);
  /// Makes later runs of the plan's problem use this plan. It replaces any earlier choice.
  Result<void> use(const Plan& plan);

  /// Quantises. A per-tensor scale needs a workspace: the call's, or a lent one.
  Result<void> quantize(const QuantizeCall& call, Stream stream);
  Result<void> make_quantizers_ready(DType input);

  /// Packs or unpacks arrays on this device.
  Result<void> pack(const PackCall& call, Stream stream);
  Result<void> unpack(const PackCall& call, Stream stream);
  Result<void> make_packer_ready(const WeightFormat& format);

  Result<void> norm(const NormCall& call, Stream stream);
  Result<void> make_norms_ready(DType input);

  Result<void> route(const RouteCall& call, Stream stream);
  Result<void> combine(const CombineCall& call, Stream stream);
  Result<void> make_experts_ready(DType type);

  Result<void> verify_workspaces();
  Result<void> reset_workspaces();

  struct Holdings {
    i64 kernels, workspaces, workspace_bytes;  // `kernels` counts products only
  };
  Holdings holdings();

 private:
  template <class Op>
  Result<void> run_op(const typename Op::Problem& problem, const typename Op::Args& args, Stream stream);

  Device device_;
};

}  // namespace sluice::c_api
