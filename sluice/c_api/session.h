// SPDX-License-Identifier: Apache-2.0
// What a sluice_device holds beside the Device, which lends the workspaces: the kernels that sluice_run has
// prepared, by problem, and the quantisers. None is given back before the end, since graphs may point there.
#pragma once

#include <array>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <sluice/c_api/companions.h>
#include <sluice/gemm.h>
#include <sluice/host/device/device_impl.h>
#include <sluice/rows.h>

namespace sluice::c_api {

/// All that make_quantizers_ready() and make_norms_ready() make of an input type.
std::vector<QuantizerOptions> quantizers_of(DType input);
std::vector<NormOptions> norms_of(DType input);

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

  Result<void> norm(const NormCall& call, Stream stream);
  Result<void> make_norms_ready(DType input);

  Result<void> verify_workspaces();
  Result<void> reset_workspaces();

  struct Holdings {
    i64 kernels, workspaces, workspace_bytes;
  };
  Holdings holdings();

 private:
  Result<gemm::Kernel> prepare(const Problem& problem, Stream stream);
  Result<WorkspaceView> lend(Stream stream, i64 needed);

  /// The kernel of a slot: the one that is there, else made, unless the stream captures.
  template <class Companion, class Make>
  Result<Companion> companion(std::optional<Companion>& slot, Stream stream, const Make& make);
  template <class Companion>
  Result<Companion> keep(std::optional<Companion>& slot, Result<Companion> made);
  std::optional<Quantizer>& quantizer_slot(const QuantizerOptions& options) {
    return quantizers_[kind_of(options.input, options.granularity) * 2 + static_cast<int>(options.gate)];
  }
  std::optional<Norm>& norm_slot(const NormOptions& options) {
    return norms_[kind_of(options.input, options.quantize)];
  }
  static constexpr int kGrains = 5;  // granularities, and none
  static std::size_t kind_of(DType input, std::optional<Granularity> granularity) {
    return static_cast<std::size_t>(static_cast<int>(input) * kGrains +
                                    (granularity ? static_cast<int>(*granularity) : kGrains - 1));
  }

  Device device_;
  PreparedGemms kernels_;  // by problem with its strides
  std::mutex mutex_;       // of the companions; never held where the driver is waited for
  std::array<std::optional<Quantizer>, kDTypeCount * kGrains * 2> quantizers_;
  std::array<std::optional<Norm>, kDTypeCount * kGrains> norms_;
};

}  // namespace sluice::c_api
