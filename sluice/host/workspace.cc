// SPDX-License-Identifier: Apache-2.0
// Counters that kernels give back zeroed: made, looked at, and zeroed again after an accident.
#include <algorithm>
#include <vector>

#include <sluice/gemm.h>
#include <sluice/host/device_impl.h>
#include <sluice/host/driver/memory.h>

namespace sluice {
namespace {

/// A workspace smaller than its counters serves plans that need none.
i64 counter_bytes(i64 bytes) {
  return std::min(bytes, kWorkspaceCounterBytes);
}

}  // namespace

struct Workspace::Impl {
  Device device;
  DeviceBuffer buffer;
};

Result<Workspace> Workspace::create(const Device& device, i64 bytes) {
  Result<DeviceBuffer> buffer = DeviceBuffer::allocate(device, bytes);
  if (!buffer) return buffer.error();
  Workspace workspace(std::make_shared<Impl>(Impl{device, *std::move(buffer)}));
  if (bytes == 0) return workspace;
  // Streams that do not synchronise with the default one may use it next: the zeros must be there by then.
  if (const Result<void> zeroed = workspace.reset(nullptr); !zeroed) return zeroed.error();
  if (const Result<void> done = synchronize(device); !done) return done.error();
  return workspace;
}

void* Workspace::data() const {
  return impl_->buffer.data();
}

i64 Workspace::bytes() const {
  return impl_->buffer.bytes();
}

Result<void> Workspace::verify() const {
  if (bytes() == 0) return {};
  if (const Result<void> done = synchronize(impl_->device); !done) return done;
  std::vector<u32> counters(static_cast<std::size_t>(ceil_div(counter_bytes(bytes()), i64{4})));
  if (const Result<void> read = impl_->buffer.download(counters.data(), counter_bytes(bytes())); !read)
    return read;
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
