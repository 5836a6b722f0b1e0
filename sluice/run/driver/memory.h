// SPDX-License-Identifier: Apache-2.0
// Device memory that frees itself, for workspaces, tests, bench and the CLI; gemm::launch never allocates.
// Offsets and sizes are in bytes and checked against the buffer.
#pragma once

#include <memory>

#include <sluice/gemm.h>
#include <sluice/run/driver/context.h>
#include <sluice/spec/base.h>

namespace sluice {

class DeviceBuffer {
 public:
  struct Range {
    i64 offset = 0, bytes = 0;
  };
  /// Allocates `bytes` of undefined contents; 0 gives a null data(). Allocating and freeing are allowed while
  /// any thread captures a stream. Errors: invalid_size, driver (out of memory).
  static Result<DeviceBuffer> allocate(const Device& device, i64 bytes);
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  CUdeviceptr address() const { return address_; }
  void* data() const { return reinterpret_cast<void*>(address_); }
  i64 bytes() const { return bytes_; }

  /// Copies and waits until the data have arrived. Not ordered behind work in other streams. Both use the
  /// legacy stream, which ends captures of blocking streams: no call of a user's launch or race may use them.
  Result<void> upload(const void* source, i64 bytes, i64 offset = 0) const;
  Result<void> download(void* target, i64 bytes, i64 offset = 0) const;
  /// Copies in stream order without waiting. `target` or `source` must live until the copy is done, and be
  /// pinned for the copy to overlap.
  Result<void> download_async(void* target, i64 bytes, Stream stream) const;
  Result<void> upload_async(const void* source, Range to, Stream stream) const;
  Result<void> fill(u8 value, Stream stream) const;
  /// Copies from the bytes at `from`, which must not overlap `to`, in stream order.
  Result<void> copy(i64 from, Range to, Stream stream) const;
  /// Copies the first `bytes` of the range over the rest of it, again and again, in stream order.
  Result<void> repeat(i64 bytes, Range range, Stream stream) const;

 private:
  std::shared_ptr<const PrimaryContext> primary_;
  CUdeviceptr address_ = 0;
  i64 bytes_ = 0;
};

/// Copies between two ranges of the device's memory, which must not overlap, in stream order. Error driver.
Result<void> copy_on_device(const Device& device, void* to, const void* from, i64 bytes, Stream stream);

/// Waits for all work of the device's context. Error driver: also a failure of an earlier kernel.
Result<void> synchronize(const PrimaryContext& primary);
Result<void> synchronize(const Device& device);

}  // namespace sluice
