// SPDX-License-Identifier: Apache-2.0
// Workspaces and their counters, which kernels leave zeroed. This file creates workspaces, checks them, and
// zeroes them after an aborted launch.
#include <algorithm>
#include <vector>

#include <sluice/gemm.h>
#include <sluice/run/device/device_impl.h>
#include <sluice/run/device/workspace.h>
#include <sluice/run/driver/capture_mode.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/memory.h>
#include <sluice/spec/work_split.h>
#include <sluice/try.h>

namespace sluice {
namespace {

/// A workspace may be smaller than all counters; it then serves plans that need none.
i64 counter_bytes(i64 bytes) {
  return std::min(bytes, kWorkspaceCounterBytes);
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
  std::vector<u32> counters(kWorkspaceCounters);
  SLUICE_TRY(impl_->buffer.download(counters.data(), counter_bytes(bytes())));
  const auto dirty = std::find_if(counters.begin(), counters.end(), [](u32 value) { return value != 0; });
  if (dirty == counters.end()) return {};
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
