// SPDX-License-Identifier: Apache-2.0
// Workspaces: counters, which kernels leave zeroed, and the owner stamp of debug kernels. This file creates
// them, checks them, and zeroes them after an aborted launch.
#include <algorithm>
#include <cstring>
#include <vector>

#include <sluice/gemm.h>
#include <sluice/host/device/device_impl.h>
#include <sluice/host/device/workspace.h>
#include <sluice/host/driver/capture_mode.h>
#include <sluice/host/driver/events.h>
#include <sluice/host/driver/memory.h>
#include <sluice/spec/workspace_stamp.h>
#include <sluice/try.h>

namespace sluice {
namespace {

/// A workspace may be smaller than all counters; it then serves plans that need none.
i64 counter_bytes(i64 bytes) {
  return std::min(bytes, kWorkspaceCounterBytes);
}

Error broken(const std::string& what) {
  return {ErrorCode::workspace, what};
}
std::string number(u32 launch) {
  return "launch " + std::to_string(launch);
}

/// Error workspace: two launches used the workspace at the same time, even if the counters are zero.
Result<void> check_conflict(const WorkspaceStamp& stamp) {
  if (stamp.conflict == 0) return {};
  const u32 owner = stamp_high(stamp.conflict), intruder = stamp_low(stamp.conflict);
  if (owner == 0)
    return broken(
        number(intruder) +
        " found the workspace given back before it was done: the same captured launch ran twice at one "
        "time, or the workspace was written to meanwhile; a workspace is for launches that follow each "
        "other: after that, call reset()");
  return broken(
      number(owner) + " and " + number(intruder) +
      " (stamped launches of this process, counted from 1) were in flight on the workspace at one "
      "time, and their results may be wrong: launches that may run at the same time need a workspace "
      "each, one for a stream and one for each branch of a graph; then call reset()");
}

/// Error workspace: a launch still owns the workspace. Check the counters first: their errors say more.
Result<void> check_owner(const WorkspaceStamp& stamp) {
  if (stamp.owner == 0) return {};
  return broken(
      number(stamp_high(stamp.owner)) + " still owns the workspace, " +
      std::to_string(stamp_low(stamp.owner)) +
      " of those that work in it have not left it: call reset() if it was aborted, or if another program "
      "wrote there");
}

}  // namespace

/// Holds no Device, because a Device may own this workspace (workspace_lender.h).
struct Workspace::Impl {
  std::shared_ptr<const PrimaryContext> primary;
  DeviceBuffer buffer;
};

Result<Workspace> Workspace::create(const Device& device, i64 bytes) {
  SLUICE_TAKE(DeviceBuffer buffer, DeviceBuffer::allocate(device, bytes));
  Workspace workspace(std::make_shared<Impl>(Impl{device.impl().primary, std::move(buffer)}));
  if (bytes == 0) return workspace;
  // The next user may be any stream, so wait until the memory is zeroed.
  SLUICE_TRY(zero_now(device, workspace));
  return workspace;
}

Result<void> zero_now(const Device& device, Workspace workspace) {
  const RelaxedCapture whatever_is_captured(*device.impl().api);
  SLUICE_TAKE(const StreamHandle own, StreamHandle::create(device));
  SLUICE_TRY(workspace.reset(own.get()));
  return own.synchronize();
}

void* Workspace::data() const {
  return impl_->buffer.data();
}

i64 Workspace::bytes() const {
  return impl_->buffer.bytes();
}

Result<void> Workspace::verify() const {
  if (bytes() == 0) return {};
  SLUICE_TRY(synchronize(*impl_->primary));
  std::vector<u32> counters(static_cast<std::size_t>(kWorkspaceCounterBytes / 4));
  SLUICE_TRY(impl_->buffer.download(counters.data(), counter_bytes(bytes())));
  WorkspaceStamp stamp;
  std::memcpy(&stamp, counters.data() + kWorkspaceCounters, sizeof stamp);
  SLUICE_TRY(check_conflict(stamp));
  counters.resize(kWorkspaceCounters);
  const auto dirty = std::find_if(counters.begin(), counters.end(), [](u32 value) { return value != 0; });
  if (dirty == counters.end()) return check_owner(stamp);
  return Error{ErrorCode::workspace,
               "counter " + std::to_string(dirty - counters.begin()) + " of the workspace is " +
                   std::to_string(*dirty) +
                   " and must be 0 between launches: call reset() if a kernel was aborted, if two launches "
                   "used the workspace at one time, or if another program wrote there"};
}

Result<void> Workspace::reset(Stream stream) {
  return impl_->buffer.fill(0, stream);
}

}  // namespace sluice
