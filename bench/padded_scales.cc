// SPDX-License-Identifier: Apache-2.0
#include "bench/padded_scales.h"

#include <sluice/host/device_impl.h>
#include <sluice/host/driver/error.h>

namespace sluice::bench {

Result<DeviceBuffer> padded_scales(const Device& device, const float* source, i64 rows, i64 blocks,
                                   Stream stream) {
  const i64 row_bytes = blocks * static_cast<i64>(sizeof(float));
  const i64 pitch = round_up(blocks, kPeerScaleRow) * static_cast<i64>(sizeof(float));
  Result<DeviceBuffer> made = DeviceBuffer::allocate(device, rows * pitch);
  if (!made) return made.error();
  if (Result<void> done = made->fill(0, stream); !done) return done.error();
  const Device::Impl& impl = device.impl();
  const ContextScope scope(*impl.primary);
  if (Result<void> entered = scope.entered(); !entered) return entered.error();
  for (i64 row = 0; row < rows; ++row) {
    const CUdeviceptr from =
        reinterpret_cast<CUdeviceptr>(source) + static_cast<CUdeviceptr>(row * row_bytes);
    const CUdeviceptr to = made->address() + static_cast<CUdeviceptr>(row * pitch);
    const CUresult code =
        impl.api->cuMemcpyDtoDAsync(to, from, static_cast<size_t>(row_bytes), static_cast<CUstream>(stream));
    if (code != CUDA_SUCCESS) return driver_error(*impl.api, code, "cuMemcpyDtoDAsync", "a row of scales");
  }
  return made;
}

}  // namespace sluice::bench
