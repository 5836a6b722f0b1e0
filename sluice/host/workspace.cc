// SPDX-License-Identifier: Apache-2.0
// The zeroed memory that kernels give back zeroed: made, looked at, and zeroed again after an accident.
#include <algorithm>
#include <vector>

#include <sluice/gemm.h>
#include <sluice/host/device_impl.h>
#include <sluice/host/driver/memory.h>

namespace sluice {
namespace {

constexpr i64 kVerifyChunk = i64{1} << 20;  // host memory that verify() uses

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
  std::vector<u8> chunk(static_cast<std::size_t>(std::min(bytes(), kVerifyChunk)));
  for (i64 offset = 0; offset < bytes(); offset += kVerifyChunk) {
    const i64 size = std::min(kVerifyChunk, bytes() - offset);
    if (const Result<void> read = impl_->buffer.download(chunk.data(), size, offset); !read) return read;
    const auto end = chunk.begin() + size;
    const auto dirty = std::find_if(chunk.begin(), end, [](u8 byte) { return byte != 0; });
    if (dirty != end)
      return Error{ErrorCode::workspace,
                   "byte " + std::to_string(offset + (dirty - chunk.begin())) + " of a workspace of " +
                       std::to_string(bytes()) + " bytes is " + std::to_string(*dirty) +
                       ": kernels must leave zeros; call reset() if a kernel was aborted or another program "
                       "wrote there"};
  }
  return {};
}

Result<void> Workspace::reset(Stream stream) {
  return impl_->buffer.fill(0, stream);
}

}  // namespace sluice
