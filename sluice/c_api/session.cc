// SPDX-License-Identifier: Apache-2.0
// The second and every later run of a problem: one look-up under a lock, then gemm::launch.
#include <sluice/c_api/session.h>

#include <string>
#include <thread>
#include <utility>

#include <sluice/host/driver/error.h>
#include <sluice/host/gemm_checks.h>
#include <sluice/host/quantize_units.h>

namespace sluice::c_api {
namespace {

constexpr std::size_t kMaxLentWorkspaces = 64;  // streams; each holds kWorkspaceLimit bytes
constexpr const char* kRemedy =
    "call prepare() (sluice_make_ready) for it, or run it once, before the capture";

/// One form of what is the same product, so that what was prepared in another spelling is found.
Problem key_of(const Problem& problem) {
  Problem key = with_strides(problem);
  if (!is_fp8(key.a.type) || is_block_scaled(key.epilogue)) key.accumulate = Accumulate::fast;
  if (!key.epilogue.residual) key.c = {};
  if (!adds(key.epilogue)) key.deterministic = true;
  // One value for each of one row is one value, and arrays say no more (arrays.cc takes the plainer).
  Epilogue& e = key.epilogue;
  if (key.m == 1 && e.scale_a == ScaleMode::vector) e.scale_a = ScaleMode::tensor;
  if (key.n == 1 && e.scale_b == ScaleMode::vector) e.scale_b = ScaleMode::tensor;
  return key;
}

/// Was a call refused because of a capture?
bool is_of_capture(CUresult code) {
  return code >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && code <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

}  // namespace

std::optional<gemm::Kernel> Session::find(const Problem& problem) {
  const std::lock_guard lock(mutex_);
  const auto found = kernels_.find(problem);
  if (found == kernels_.end()) return {};
  return found->second;
}

/// A stream that may not be asked because of a capture (the legacy stream beside one) counts as capturing:
/// compiling then would spoil the capture.
Result<bool> Session::is_capturing(Stream stream) const {
  const ContextScope scope(*device_.impl().primary);
  if (const Result<void> entered = scope.entered(); !entered) return entered.error();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const DriverApi& api = *device_.impl().api;
  const CUresult code = api.cuStreamIsCapturing(stream, &status);
  if (is_of_capture(code)) return true;
  if (code != CUDA_SUCCESS) return driver_error(api, code, "cuStreamIsCapturing", "stream " + hex(stream));
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

Result<gemm::Kernel> Session::kernel_for(const Problem& problem, Stream stream) {
  if (std::optional<gemm::Kernel> kernel = find(problem)) return *std::move(kernel);
  const Result<Plan> plan = gemm::plan(problem, device_.info(), {}, device_.records());
  if (!plan) return plan.error();
  if (!gemm::is_empty(problem)) {
    const Result<bool> capturing = is_capturing(stream);
    if (!capturing) return capturing.error();
    if (*capturing)
      return Error{ErrorCode::not_prepared, "the stream is capturing and no kernel is ready for " +
                                                to_string(problem) + ": " + kRemedy};
  }
  Result<gemm::Kernel> kernel = gemm::prepare(device_, *plan);
  if (!kernel) return kernel.error();
  const std::lock_guard lock(mutex_);
  return kernels_.emplace(problem, *std::move(kernel)).first->second;
}

/// By id where work runs, since handles come again while work of a stream before is on its way. A stream that
/// captures may not be asked for its id (driver 580: the capture is lost); its handle will do there, because
/// nothing runs: graphs captured in one stream share.
Result<Session::Borrower> Session::borrower(Stream stream, bool capturing) const {
  if (capturing) {
    const u64 thread =
        stream == CU_STREAM_PER_THREAD ? std::hash<std::thread::id>()(std::this_thread::get_id()) : 0;
    return Borrower{true, reinterpret_cast<u64>(stream) ^ thread};
  }
  const Device::Impl& impl = device_.impl();
  const ContextScope scope(*impl.primary);
  if (const Result<void> entered = scope.entered(); !entered) return entered.error();
  unsigned long long id = 0;
  if (const CUresult code = impl.api->cuStreamGetId(stream, &id); code != CUDA_SUCCESS)
    return driver_error(*impl.api, code, "cuStreamGetId", "stream " + hex(stream));
  return Borrower{false, id};
}

std::optional<Result<WorkspaceView>> Session::lent_to(const Borrower& id, i64 needed) const {
  if (const auto found = lent_.find(id); found != lent_.end()) {
    if (found->second.bytes() >= needed) return found->second.view();
    return Error{ErrorCode::workspace, "the plan needs " + std::to_string(needed) +
                                           " bytes of workspace and a stream "
                                           "is lent " +
                                           std::to_string(found->second.bytes()) +
                                           ": plan with a workspace_limit, or pass a workspace of your own"};
  }
  if (lent_.size() >= kMaxLentWorkspaces)
    return Error{ErrorCode::workspace,
                 std::to_string(kMaxLentWorkspaces) +
                     " streams were lent a workspace, which is as many as there are: use "
                     "fewer streams, or pass a workspace of your own"};
  return {};
}

Result<WorkspaceView> Session::lend(Stream stream, i64 needed) {
  const Result<bool> capturing = is_capturing(stream);
  if (!capturing) return capturing.error();
  const Result<Borrower> id = borrower(stream, *capturing);
  if (!id) return id.error();
  std::unique_lock lock(mutex_);
  if (const auto known = lent_to(*id, needed)) return *known;
  if (spare_.empty()) {
    if (*capturing)
      return Error{
          ErrorCode::not_prepared,
          "the stream is capturing, the plan splits its sums, and there is no workspace in store for it: "
          "call prepare() (sluice_make_ready) before the capture, or pass a workspace"};
    lock.unlock();  // others launch while the driver allocates
    Result<Workspace> made = Workspace::create(device_, kWorkspaceLimit);
    if (!made) return made.error();
    lock.lock();
    spare_.push_back(*std::move(made));  // where it stays if another thread lent this stream one meanwhile
    if (const auto known = lent_to(*id, needed)) return *known;
  }
  const auto lent = lent_.emplace(*id, std::move(spare_.back())).first;
  spare_.pop_back();
  const WorkspaceView view = lent->second.view();
  lock.unlock();
  // A stream that captures what was warmed up here will need one too, and cannot allocate it then. Where
  // there is no memory for it, that stream will say so.
  if (!*capturing) static_cast<void>(store_workspace().ok());
  return view;
}

Result<void> Session::run(const Problem& problem, const gemm::Args& args, Stream stream) {
  const Result<gemm::Kernel> kernel = kernel_for(key_of(problem), stream);
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
  std::vector<Problem> problems, missing;
  std::vector<Plan> plans;
  for (const Problem& spelled : given) {
    const Problem problem = problems.emplace_back(key_of(spelled));
    if (find(problem).has_value()) continue;
    Result<Plan> plan = gemm::plan(problem, device_.info(), {}, device_.records());
    if (!plan) return plan.error();
    missing.push_back(problem);
    plans.push_back(*std::move(plan));
  }
  std::vector<Result<gemm::Kernel>> kernels = gemm::prepare(device_, plans);
  bool splits = false;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      if (!kernels[i]) return kernels[i].error();
      kernels_.emplace(missing[i], *std::move(kernels[i]));
    }
    for (const Problem& problem : problems)
      splits = splits || kernels_.at(problem).plan().workspace_bytes > 0;
  }
  return splits ? store_workspace() : Result<void>();
}

Result<void> Session::use(const Plan& plan) {
  Result<gemm::Kernel> kernel = gemm::prepare(device_, plan);
  if (!kernel) return kernel.error();
  {
    const std::lock_guard lock(mutex_);
    const auto [entry, is_new] = kernels_.emplace(key_of(plan.problem), *kernel);
    if (!is_new) retired_.push_back(std::exchange(entry->second, *kernel));
  }
  return kernel->plan().workspace_bytes > 0 ? store_workspace() : Result<void>();
}

Result<void> Session::store_workspace() {
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty() || lent_.size() >= kMaxLentWorkspaces) return {};
  }
  Result<Workspace> made = Workspace::create(device_, kWorkspaceLimit);
  if (!made) return made.error();
  const std::lock_guard lock(mutex_);
  spare_.push_back(*std::move(made));
  return {};
}

Result<Quantizer> Session::quantizer_for(DType input, Granularity granularity, Stream stream) {
  std::optional<Quantizer>& slot = quantizer_slot(input, granularity);
  {
    const std::lock_guard lock(mutex_);
    if (slot.has_value()) return *slot;
  }
  const Result<bool> capturing = is_capturing(stream);
  if (!capturing) return capturing.error();
  if (*capturing)
    return Error{ErrorCode::not_prepared,
                 std::string("the stream is capturing and no quantiser of ") + name_of(input) + " by " +
                     name_of(granularity) +
                     " is ready: call prepare_quantizers() (sluice_make_quantizers_ready), "
                     "or run it once, before the capture"};
  Result<Quantizer> made = Quantizer::create(device_, input, granularity);
  if (!made) return made.error();
  const std::lock_guard lock(mutex_);
  if (!slot.has_value()) slot = *made;  // another thread's stays: work may be on its way with it
  return *slot;
}

Result<void> Session::quantize(const QuantizeCall& call, Stream stream) {
  const Result<Quantizer> quantizer = quantizer_for(call.input, call.granularity, stream);
  if (!quantizer) return quantizer.error();
  if (call.granularity != Granularity::tensor || call.args.scale_given)
    return quantizer->launch(call.shape, call.args, stream);
  const Result<WorkspaceView> lent = lend(stream, kWorkspaceCounterBytes);
  if (!lent) return lent.error();
  QuantizeArgs complete = call.args;
  complete.workspace = *lent;
  return quantizer->launch(call.shape, complete, stream);
}

Result<void> Session::make_quantizers_ready(DType input) {
  for (const Granularity granularity : kGranularities) {
    Result<Quantizer> made = Quantizer::create(device_, input, granularity);
    if (!made) return made.error();
    const std::lock_guard lock(mutex_);
    std::optional<Quantizer>& slot = quantizer_slot(input, granularity);
    if (!slot.has_value()) slot = *std::move(made);
  }
  return store_workspace();
}

/// Handles of the same memory: whoever waits for the device holds no lock.
std::vector<Workspace> Session::all_lent() {
  const std::lock_guard lock(mutex_);
  std::vector<Workspace> workspaces;
  for (const auto& [id, workspace] : lent_) workspaces.push_back(workspace);
  return workspaces;
}

Result<void> Session::verify_workspaces() {
  for (const Workspace& workspace : all_lent())
    if (Result<void> clean = workspace.verify(); !clean) return clean;
  return {};
}

Result<void> Session::reset_workspaces() {
  if (Result<void> done = synchronize(device_); !done) return done;
  for (Workspace& workspace : all_lent())
    if (Result<void> reset = workspace.reset(nullptr); !reset) return reset;
  return synchronize(device_);
}

Session::Holdings Session::holdings() {
  const std::lock_guard lock(mutex_);
  i64 bytes = 0;
  for (const auto& [id, workspace] : lent_) bytes += workspace.bytes();
  for (const Workspace& workspace : spare_) bytes += workspace.bytes();
  return {static_cast<i64>(kernels_.size()), static_cast<i64>(lent_.size()), bytes};
}

}  // namespace sluice::c_api
