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
#include <sluice/try.h>

namespace sluice::c_api {
namespace {

constexpr const char* kRemedy =
    "call prepare() (sluice_make_ready) for it, or run it once, before the capture";

struct MakeQuantizer : QuantizerOptions {
  std::string not_ready() const {
    return std::string("no quantiser of ") + name_of(input) +
           (granularity ? std::string(" by ") + name_of(*granularity) : std::string()) +
           (gate == Gate::none ? "" : " with a gate") +
           " is ready: call prepare_quantizers() (sluice_make_quantizers_ready), or run it once, before the "
           "capture";
  }
  Result<Quantizer> create(const Device& device) const {
    return Quantizer::create(device, input, granularity, gate);
  }
};

struct MakeNorm {
  NormOptions options;

  std::string not_ready() const {
    return std::string("no norm of ") + name_of(options.input) +
           (options.quantize ? std::string(" to e4m3 by ") + name_of(*options.quantize) : std::string()) +
           " is ready: call prepare_norms() (sluice_make_norms_ready), or run it once, before the capture";
  }
  Result<Norm> create(const Device& device) const { return Norm::create(device, options); }
};

}  // namespace

std::vector<QuantizerOptions> quantizers_of(DType input) {
  std::vector<QuantizerOptions> all;
  for (const Gate gate : kGates)
    for (const Granularity granularity : kGranularities)
      all.push_back({.input = input, .granularity = granularity, .gate = gate});
  if (input != DType::fp32) all.push_back({.input = input, .gate = Gate::silu});
  return all;
}

std::vector<NormOptions> norms_of(DType input) {
  return {{.input = input},
          {.input = input, .quantize = Granularity::tensor},
          {.input = input, .quantize = Granularity::row},
          {.input = input, .quantize = Granularity::row_block}};
}

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

template <class Companion, class Make>
Result<Companion> Session::companion(std::optional<Companion>& slot, Stream stream, const Make& make) {
  {
    const std::lock_guard lock(mutex_);
    if (slot.has_value()) return *slot;
  }
  SLUICE_TRY(refuse_capture(device_, stream, make.not_ready()));
  return keep(slot, make.create(device_));
}

template <class Companion>
Result<Companion> Session::keep(std::optional<Companion>& slot, Result<Companion> made) {
  if (!made) return made.error();
  const std::lock_guard lock(mutex_);
  if (!slot.has_value()) slot = *std::move(made);  // another thread's stays: work may be on its way with it
  return *slot;
}

Result<void> Session::quantize(const QuantizeCall& call, Stream stream) {
  const ContextScope scope(*device_.impl().primary);
  SLUICE_TRY(scope.entered());
  const MakeQuantizer make{call.input, call.granularity, call.gate};
  SLUICE_TAKE(const Quantizer quantizer, companion(quantizer_slot(make), stream, make));
  if (call.granularity != Granularity::tensor || call.args.scale_given || call.args.workspace.data != nullptr)
    return quantizer.launch(call.shape, call.args, stream);
  QuantizeArgs complete = call.args;
  SLUICE_TAKE(complete.workspace, lend(stream, kWorkspaceCounterBytes));
  return quantizer.launch(call.shape, complete, stream);
}

Result<void> Session::make_quantizers_ready(DType input) {
  for (const QuantizerOptions& options : quantizers_of(input))
    SLUICE_TRY(
        keep(quantizer_slot(options), Quantizer::create(device_, input, options.granularity, options.gate)));
  return {};
}

Result<void> Session::norm(const NormCall& call, Stream stream) {
  const ContextScope scope(*device_.impl().primary);
  SLUICE_TRY(scope.entered());
  SLUICE_TAKE(const Norm norm, companion(norm_slot(call.options), stream, MakeNorm{call.options}));
  return norm.launch(call.shape, call.args, stream);
}

Result<void> Session::make_norms_ready(DType input) {
  for (const NormOptions& options : norms_of(input))
    SLUICE_TRY(keep(norm_slot(options), Norm::create(device_, options)));
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
