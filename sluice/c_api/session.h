// SPDX-License-Identifier: Apache-2.0
// What a sluice_device does with its Device, which keeps the kernels, quantisers, norms and packers that were
// prepared, by problem, and lends the workspaces. None is given back before the end, since graphs may point
// there. Error not_prepared: the stream captures and what the call needs is not there.
#pragma once

#include <span>

#include <sluice/c_api/companions.h>
#include <sluice/c_api/packing.h>
#include <sluice/gemm.h>
#include <sluice/rows.h>

namespace sluice::c_api {

/// All that make_quantizers_ready() and make_norms_ready() make of an input type.
std::vector<QuantizerOptions> quantizers_of(DType input);
std::vector<NormOptions> norms_of(DType input);

class Session {
 public:
  explicit Session(Device device) : device_(std::move(device)) {}

  const Device& device() const { return device_; }

  /// A workspace in `args` is used as it is; else the device lends one if the plan needs it.
  Result<void> run(const Problem& problem, const gemm::Args& args, Stream stream);
  Result<void> run(const PackedProblem& problem, const packed::Args& args, Stream stream);
  /// Prepares what run() needs for all of `problems`.
  Result<void> make_ready(std::span<const Problem> problems);
  Result<void> make_ready(std::span<const PackedProblem> problems);
  /// The same for all m of a range, with few kernels (sluice/rows.h). `problem.m` does not count.
  Result<RowSummary> make_ready(const Problem& problem, RowRange rows);
  Result<RowSummary> make_ready(const PackedProblem& problem, RowRange rows);
  /// run() uses this plan for its problem from now on, whatever was chosen before.
  Result<void> use(const Plan& plan);
  Result<void> use(const packed::Plan& plan);

  /// One scale for the whole matrix needs the counters of a workspace: the call's, else a lent one.
  Result<void> quantize(const QuantizeCall& call, Stream stream);
  Result<void> make_quantizers_ready(DType input);

  /// Of arrays on this device.
  Result<void> pack(const PackCall& call, Stream stream);
  Result<void> unpack(const PackCall& call, Stream stream);
  Result<void> make_packer_ready(const WeightFormat& format);

  Result<void> norm(const NormCall& call, Stream stream);
  Result<void> make_norms_ready(DType input);

  Result<void> verify_workspaces();
  Result<void> reset_workspaces();

  struct Holdings {
    i64 kernels, workspaces, workspace_bytes;  // kernels: of products
  };
  Holdings holdings();

 private:
  template <class Op>
  Result<void> run_op(const typename Op::Problem& problem, const typename Op::Args& args, Stream stream);

  Device device_;
};

}  // namespace sluice::c_api
