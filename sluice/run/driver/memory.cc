// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/driver/memory.h>

#include <algorithm>

#include <sluice/run/device/device_impl.h>
#include <sluice/run/driver/capture_mode.h>
#include <sluice/run/driver/error.h>
#include <sluice/try.h>

namespace sluice {
namespace {

Error out_of_range(const char* what, i64 bytes, i64 offset, i64 size) {
  return {ErrorCode::invalid_size, std::string(what) + ": " + std::to_string(bytes) + " bytes at offset " +
                                       std::to_string(offset) + " do not lie in a buffer of " +
                                       std::to_string(size) + " bytes"};
}

bool in_range(i64 bytes, i64 offset, i64 size) {
  return bytes >= 0 && offset >= 0 && offset <= size && bytes <= size - offset;
}

/// Runs one driver call with the context current. `call` takes the table and returns the driver's code.
template <class Call>
Result<void> in_context(const PrimaryContext& primary, const char* name, i64 bytes, const Call& call) {
  const ContextScope scope(primary);
  SLUICE_TRY(scope.entered());
  const CUresult code = call(primary.api());
  if (code == CUDA_SUCCESS) return {};
  return driver_error(primary.api(), code, name, std::to_string(bytes) + " bytes");
}

}  // namespace

Result<DeviceBuffer> DeviceBuffer::allocate(const Device& device, i64 bytes) {
  if (bytes < 0)
    return Error{ErrorCode::invalid_size, "a buffer of " + std::to_string(bytes) + " bytes: must be >= 0"};
  DeviceBuffer buffer;
  if (bytes == 0) return buffer;
  const std::shared_ptr<const PrimaryContext>& primary = device.impl().primary;
  const Result<void> allocated = in_context(*primary, "cuMemAlloc", bytes, [&](const DriverApi& api) {
    const RelaxedCapture whatever_is_captured(api);
    return api.cuMemAlloc(&buffer.address_, static_cast<std::size_t>(bytes));
  });
  if (!allocated) {
    buffer.address_ = 0;
    return allocated.error();
  }
  buffer.primary_ = primary;
  buffer.bytes_ = bytes;
  return buffer;
}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(primary_, other.primary_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (address_ == 0) return;
  const ContextScope scope(*primary_);
  const RelaxedCapture whatever_is_captured(primary_->api());
  primary_->api().cuMemFree(address_);
}

Result<void> DeviceBuffer::upload(const void* source, i64 bytes, i64 offset) const {
  if (!in_range(bytes, offset, bytes_)) return out_of_range("upload", bytes, offset, bytes_);
  if (bytes == 0) return {};
  return in_context(*primary_, "cuMemcpyHtoD", bytes, [&](const DriverApi& api) {
    const CUresult copied = api.cuMemcpyHtoD(address_ + offset, source, static_cast<std::size_t>(bytes));
    // From pageable memory the copy may return before its last bytes arrive, and other streams do not wait
    // for them.
    return copied == CUDA_SUCCESS ? api.cuStreamSynchronize(nullptr) : copied;
  });
}

Result<void> DeviceBuffer::download(void* target, i64 bytes, i64 offset) const {
  if (!in_range(bytes, offset, bytes_)) return out_of_range("download", bytes, offset, bytes_);
  if (bytes == 0) return {};
  return in_context(*primary_, "cuMemcpyDtoH", bytes, [&](const DriverApi& api) {
    return api.cuMemcpyDtoH(target, address_ + offset, static_cast<std::size_t>(bytes));
  });
}

Result<void> DeviceBuffer::download_async(void* target, i64 bytes, Stream stream) const {
  if (!in_range(bytes, 0, bytes_)) return out_of_range("download_async", bytes, 0, bytes_);
  if (bytes == 0) return {};
  return in_context(*primary_, "cuMemcpyDtoHAsync", bytes, [&](const DriverApi& api) {
    return api.cuMemcpyDtoHAsync(target, address_, static_cast<std::size_t>(bytes), stream);
  });
}

Result<void> DeviceBuffer::upload_async(const void* source, Range to, Stream stream) const {
  if (!in_range(to.bytes, to.offset, bytes_))
    return out_of_range("upload_async", to.bytes, to.offset, bytes_);
  if (to.bytes == 0) return {};
  return in_context(*primary_, "cuMemcpyHtoDAsync", to.bytes, [&](const DriverApi& api) {
    return api.cuMemcpyHtoDAsync(address_ + static_cast<u64>(to.offset), source,
                                 static_cast<std::size_t>(to.bytes), stream);
  });
}

Result<void> DeviceBuffer::copy(i64 from, Range to, Stream stream) const {
  if (!in_range(to.bytes, to.offset, bytes_)) return out_of_range("copy", to.bytes, to.offset, bytes_);
  if (!in_range(to.bytes, from, bytes_)) return out_of_range("copy", to.bytes, from, bytes_);
  if (to.bytes == 0) return {};
  return in_context(*primary_, "cuMemcpyDtoDAsync", to.bytes, [&](const DriverApi& api) {
    return api.cuMemcpyDtoDAsync(address_ + static_cast<u64>(to.offset), address_ + static_cast<u64>(from),
                                 static_cast<std::size_t>(to.bytes), stream);
  });
}

Result<void> DeviceBuffer::repeat(i64 bytes, Range range, Stream stream) const {
  if (!in_range(range.bytes, range.offset, bytes_) || !in_range(bytes, 0, range.bytes) || bytes == 0)
    return out_of_range("repeat", range.bytes, range.offset, bytes_);
  return in_context(*primary_, "cuMemcpyDtoDAsync", range.bytes, [&](const DriverApi& api) {
    const CUdeviceptr begin = address_ + static_cast<u64>(range.offset);
    CUresult code = CUDA_SUCCESS;
    for (i64 done = bytes; done < range.bytes && code == CUDA_SUCCESS;) {  // twice as many each time
      const i64 more = std::min(done, range.bytes - done);
      code = api.cuMemcpyDtoDAsync(begin + static_cast<u64>(done), begin, static_cast<std::size_t>(more),
                                   stream);
      done += more;
    }
    return code;
  });
}

Result<void> DeviceBuffer::fill(u8 value, Stream stream) const {
  if (bytes_ == 0) return {};
  return in_context(*primary_, "cuMemsetD8Async", bytes_, [&](const DriverApi& api) {
    return api.cuMemsetD8Async(address_, value, static_cast<std::size_t>(bytes_), stream);
  });
}

Result<void> copy_on_device(const Device& device, void* to, const void* from, i64 bytes, Stream stream) {
  if (bytes == 0) return {};
  return in_context(*device.impl().primary, "cuMemcpyDtoDAsync", bytes, [&](const DriverApi& api) {
    return api.cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from),
                                 static_cast<std::size_t>(bytes), stream);
  });
}

Result<void> synchronize(const PrimaryContext& primary) {
  return in_context(primary, "cuCtxSynchronize", 0,
                    [](const DriverApi& api) { return api.cuCtxSynchronize(); });
}
Result<void> synchronize(const Device& device) {
  return synchronize(*device.impl().primary);
}

}  // namespace sluice
