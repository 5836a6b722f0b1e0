// SPDX-License-Identifier: Apache-2.0
// What a sluice_device holds beside the Device, which lends the workspaces: the kernels that sluice_run has
// prepared, by problem, and the quantisers. None is given back before the end, since graphs may point there.
#pragma once

#include <array>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <sluice/gemm.h>
#include <sluice/host/device/device_impl.h>
#include <sluice/quantize.h>
#include <sluice/rows.h>

namespace sluice::c_api {

struct QuantizeCall {
  DType input = DType::bf16;
  Granularity granularity = Granularity::row_block;
  Gate gate = Gate::none;
  QuantizeShape shape;
  QuantizeArgs args;
};

class Session {
 public:
  explicit Session(Device device) : device_(std::move(device)) {}

  const Device& device() const { return device_; }

  /// A workspace in `args` is used as it is; else the session lends one if the plan needs it.
  /// Error not_prepared: the stream captures and the kernel is not there.
  Result<void> run(const Problem& problem, const gemm::Args& args, Stream stream);
  /// Prepares what run() needs for all of `problems`.
  Result<void> make_ready(std::span<const Problem> problems);
  /// The same for all m of a range, with few kernels (sluice/rows.h). `problem.m` does not count.
  Result<RowSummary> make_ready(const Problem& problem, RowRange rows);
  /// run() uses this plan for its problem from now on, whatever was chosen before.
  Result<void> use(const Plan& plan);

  /// One scale for the whole matrix needs the counters of a workspace: the call's, else a lent one.
  Result<void> quantize(const QuantizeCall& call, Stream stream);
  Result<void> make_quantizers_ready(DType input);

  Result<void> verify_workspaces();
  Result<void> reset_workspaces();

  struct Holdings {
    i64 kernels, workspaces, workspace_bytes;
  };
  Holdings holdings();

 private:
  Result<gemm::Kernel> prepare(const Problem& problem, Stream stream);
  Result<WorkspaceView> lend(Stream stream, i64 needed);

  Result<Quantizer> quantizer_for(const QuantizeCall& call, Stream stream);
  std::optional<Quantizer>& quantizer_slot(DType input, Granularity granularity, Gate gate) {
    return quantizers_[(static_cast<int>(input) * 4 + static_cast<int>(granularity)) * 2 +
                       static_cast<int>(gate)];
  }

  Device device_;
  PreparedGemms kernels_;  // by problem with its strides
  std::mutex mutex_;       // of the quantisers; never held where the driver is waited for
  std::array<std::optional<Quantizer>, kDTypeCount * 4 * 2> quantizers_;
};

}  // namespace sluice::c_api
