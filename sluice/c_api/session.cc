// SPDX-License-Identifier: Apache-2.0
// The second and every later run of a problem: one look-up under a lock, then gemm::launch.
#include <sluice/c_api/session.h>

#include <string>
#include <utility>

#include <sluice/host/device/capture.h>
#include <sluice/host/device/device_impl.h>
#include <sluice/host/driver/memory.h>
#include <sluice/host/ops/gemm_checks.h>
#include <sluice/host/ops/problem_key.h>
#include <sluice/host/text/quantize_units.h>

namespace sluice::c_api {
namespace {

constexpr const char* kRemedy =
    "call prepare() (sluice_make_ready) for it, or run it once, before the capture";

}  // namespace

Result<gemm::Kernel> Session::prepare(const Problem& problem, Stream stream) {
  if (std::optional<gemm::Kernel> kernel = gemm::kernel_of_rows(device_, problem)) return *std::move(kernel);
  const Result<Plan> plan = gemm::plan(problem, device_.info(), {}, device_.records());
  if (!plan) return plan.error();
  if (!gemm::is_empty(problem))
    if (Result<void> allowed =
            refuse_capture(device_, stream, "no kernel is ready for " + to_string(problem) + ": " + kRemedy);
        !allowed)
      return allowed.error();
  return gemm::prepare(device_, *plan);
}

Result<WorkspaceView> Session::lend(Stream stream, i64 needed) {
  return device_.impl().lender.lend(device_, stream, needed);
}

Result<void> Session::run(const Problem& problem, const gemm::Args& args, Stream stream) {
  const ContextScope scope(
      *device_.impl().primary);  // another device may be current: the arrays say whose it is
  if (const Result<void> entered = scope.entered(); !entered) return entered;
  const Problem key = key_of(problem);
  const Result<gemm::Kernel> kernel = kernels_.get(key, [&] { return prepare(key, stream); });
  if (!kernel) return kernel.error();
  const i64 needed = kernel->plan().workspace_bytes;
  if (needed == 0 || args.alpha == 0.0f || args.workspace.data != nullptr)
    return gemm::launch(*kernel, args, stream);
  const Result<WorkspaceView> lent = lend(stream, needed);
  if (!lent) return lent.error();
  gemm::Args complete = args;
  complete.workspace = *lent;
  return gemm::launch(*kernel, complete, stream);
}

Result<void> Session::make_ready(std::span<const Problem> given) {
  std::vector<Problem> problems;
  for (const Problem& spelled : given) problems.push_back(key_of(spelled));
  return kernels_.make_ready(
      problems,
      [&](const Problem& problem) { return gemm::plan(problem, device_.info(), {}, device_.records()); },
      [&](const std::vector<Plan>& plans) { return gemm::prepare(device_, plans); });
}

Result<RowSummary> Session::make_ready(const Problem& problem, RowRange rows) {
  return gemm::prepare(device_, problem, rows);
}

Result<void> Session::use(const Plan& plan) {
  Result<gemm::Kernel> kernel = gemm::prepare(device_, plan);
  if (!kernel) return kernel.error();
  kernels_.replace(key_of(plan.problem), *kernel);
  return {};
}

Result<Quantizer> Session::quantizer_for(const QuantizeCall& call, Stream stream) {
  std::optional<Quantizer>& slot = quantizer_slot(call.input, call.granularity, call.gate);
  {
    const std::lock_guard lock(mutex_);
    if (slot.has_value()) return *slot;
  }
  if (Result<void> allowed = refuse_capture(
          device_, stream,
          std::string("no quantiser of ") + name_of(call.input) + " by " + name_of(call.granularity) +
              (call.gate == Gate::none ? "" : " with a gate") +
              " is ready: call prepare_quantizers() (sluice_make_quantizers_ready), or run it once, before "
              "the capture");
      !allowed)
    return allowed.error();
  Result<Quantizer> made = Quantizer::create(device_, call.input, call.granularity, call.gate);
  if (!made) return made.error();
  const std::lock_guard lock(mutex_);
  if (!slot.has_value()) slot = *made;  // another thread's stays: work may be on its way with it
  return *slot;
}

Result<void> Session::quantize(const QuantizeCall& call, Stream stream) {
  const ContextScope scope(*device_.impl().primary);
  if (const Result<void> entered = scope.entered(); !entered) return entered;
  const Result<Quantizer> quantizer = quantizer_for(call, stream);
  if (!quantizer) return quantizer.error();
  if (call.granularity != Granularity::tensor || call.args.scale_given || call.args.workspace.data != nullptr)
    return quantizer->launch(call.shape, call.args, stream);
  const Result<WorkspaceView> lent = lend(stream, kWorkspaceCounterBytes);
  if (!lent) return lent.error();
  QuantizeArgs complete = call.args;
  complete.workspace = *lent;
  return quantizer->launch(call.shape, complete, stream);
}

Result<void> Session::make_quantizers_ready(DType input) {
  for (const Gate gate : kGates)
    for (const Granularity granularity : kGranularities) {
      Result<Quantizer> made = Quantizer::create(device_, input, granularity, gate);
      if (!made) return made.error();
      const std::lock_guard lock(mutex_);
      std::optional<Quantizer>& slot = quantizer_slot(input, granularity, gate);
      if (!slot.has_value()) slot = *std::move(made);
    }
  return {};
}

Result<void> Session::verify_workspaces() {
  for (const Workspace& workspace : device_.impl().lender.all_lent())
    if (Result<void> clean = workspace.verify(); !clean) return clean;
  return {};
}

Result<void> Session::reset_workspaces() {
  if (Result<void> done = synchronize(device_); !done) return done;
  for (Workspace& workspace : device_.impl().lender.all_lent())
    if (Result<void> reset = workspace.reset(nullptr); !reset) return reset;
  return synchronize(device_);
}

Session::Holdings Session::holdings() {
  const WorkspaceLender::Holdings workspaces = device_.impl().lender.holdings();
  const std::lock_guard lock(mutex_);
  return {static_cast<i64>(kernels_.size()), workspaces.lent, workspaces.bytes};
}

}  // namespace sluice::c_api
