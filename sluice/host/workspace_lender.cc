// SPDX-License-Identifier: Apache-2.0
// See workspace_lender.h.
#include <sluice/host/workspace_lender.h>

#include <string>
#include <thread>

#include <sluice/host/device_impl.h>
#include <sluice/host/driver/error.h>

namespace sluice {

/// By id where work runs, since handles come again while work of a stream before is on its way, and one of
/// them means another stream in each thread. A stream that captures may not be asked for its id (driver 580:
/// the capture is lost); its handle will do there, because nothing runs: graphs captured in one stream share.
Result<WorkspaceLender::Borrower> WorkspaceLender::borrower(const Device& device, const Request& request) {
  const Stream stream = request.stream;
  if (request.captures) {
    const u64 thread =
        stream == CU_STREAM_PER_THREAD ? std::hash<std::thread::id>()(std::this_thread::get_id()) : 0;
    return Borrower{true, reinterpret_cast<u64>(stream) ^ thread};
  }
  const Device::Impl& impl = device.impl();
  const ContextScope scope(*impl.primary);
  if (const Result<void> entered = scope.entered(); !entered) return entered.error();
  unsigned long long id = 0;
  if (const CUresult code = impl.api->cuStreamGetId(stream, &id); code != CUDA_SUCCESS)
    return driver_error(*impl.api, code, "cuStreamGetId", "stream " + hex(stream));
  return Borrower{false, id};
}

std::optional<Result<WorkspaceView>> WorkspaceLender::known(const Borrower& id, i64 bytes) const {
  if (const auto found = lent_.find(id); found != lent_.end()) {
    if (found->second.bytes() >= bytes) return found->second.view();
    return Error{ErrorCode::workspace, "the plan needs " + std::to_string(bytes) +
                                           " bytes of workspace and a stream is lent " +
                                           std::to_string(found->second.bytes()) +
                                           ": plan with a workspace_limit, or pass a workspace of your own"};
  }
  if (lent_.size() >= kMaxLent)
    return Error{
        ErrorCode::workspace,
        std::to_string(kMaxLent) +
            " streams of this process were lent a workspace, each for good, and there are no more: "
            "keep streams and use them again, since one made in place of another counts anew, or pass "
            "a workspace of your own"};
  return {};
}

Result<WorkspaceView> WorkspaceLender::lend(const Device& device, const Request& request) {
  const Result<Borrower> id = borrower(device, request);
  if (!id) return id.error();
  std::unique_lock lock(mutex_);
  if (const auto has = known(*id, request.bytes)) return *has;
  if (spare_.empty()) {
    if (request.captures)
      return Error{
          ErrorCode::not_prepared,
          "the stream is capturing, the plan splits its sums, and there is no workspace in store for it: "
          "call prepare() (sluice_make_ready) before the capture, or pass a workspace"};
    lock.unlock();  // others launch while the driver allocates
    Result<Workspace> made = Workspace::create(device, bytes_);
    if (!made) return made.error();
    lock.lock();
    spare_.push_back(*std::move(made));  // where it stays if another thread lent this stream one meanwhile
    if (const auto has = known(*id, request.bytes)) return *has;
  }
  const auto lent = lent_.emplace(*id, std::move(spare_.back())).first;
  spare_.pop_back();
  const WorkspaceView view = lent->second.view();
  lock.unlock();
  // A stream that captures what was warmed up here will need one too, and cannot allocate it then. Where
  // there is no memory for it, that stream will say so.
  if (spare_wanted_ == Spare::one && !request.captures) static_cast<void>(store(device).ok());
  return view;
}

Result<void> WorkspaceLender::store(const Device& device) {
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty() || lent_.size() >= kMaxLent) return {};
  }
  Result<Workspace> made = Workspace::create(device, bytes_);
  if (!made) return made.error();
  const std::lock_guard lock(mutex_);
  spare_.push_back(*std::move(made));
  return {};
}

std::vector<Workspace> WorkspaceLender::all_lent() const {
  const std::lock_guard lock(mutex_);
  std::vector<Workspace> workspaces;
  for (const auto& [id, workspace] : lent_) workspaces.push_back(workspace);
  return workspaces;
}

WorkspaceLender::Holdings WorkspaceLender::holdings() const {
  const std::lock_guard lock(mutex_);
  i64 bytes = 0;
  for (const auto& [id, workspace] : lent_) bytes += workspace.bytes();
  for (const Workspace& workspace : spare_) bytes += workspace.bytes();
  return {static_cast<i64>(lent_.size()), bytes};
}

}  // namespace sluice
