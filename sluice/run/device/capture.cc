// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/device/capture.h>

#include <sluice/run/device/device_impl.h>
#include <sluice/run/driver/error.h>
#include <sluice/try.h>

namespace sluice {
namespace {

bool is_of_capture(CUresult code) {
  return code >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && code <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

Result<bool> is_capturing(const Device& device, Stream stream) {
  const ContextScope scope(*device.impl().primary);
  SLUICE_TRY(scope.entered());
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const DriverApi& api = *device.impl().api;
  const CUresult code = api.cuStreamIsCapturing(stream, &status);
  if (is_of_capture(code)) return true;
  if (code != CUDA_SUCCESS) return driver_error(api, code, "cuStreamIsCapturing", "stream " + hex(stream));
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace

Result<Capture> capture_of(const Device& device, Stream stream) {
  const ContextScope scope(*device.impl().primary);
  SLUICE_TRY(scope.entered());
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const DriverApi& api = *device.impl().api;
  const CUresult code = api.cuStreamGetCaptureInfo(stream, &status, &id, &graph, nullptr, nullptr, nullptr);
  if (code != CUDA_SUCCESS) return driver_error(api, code, "cuStreamGetCaptureInfo", "stream " + hex(stream));
  if (status == CU_STREAM_CAPTURE_STATUS_NONE) return Capture{};
  if (status == CU_STREAM_CAPTURE_STATUS_ACTIVE) return Capture{.active = true, .id = id, .graph = graph};
  return Error{ErrorCode::driver, "the capture of stream " + hex(stream) +
                                      " was lost by an earlier call: end it, and capture anew"};
}

Result<void> refuse_capture(const Device& device, Stream stream, const std::string& missing) {
  SLUICE_TAKE(const bool capturing, is_capturing(device, stream));
  if (capturing) return Error{ErrorCode::not_prepared, "the stream is capturing and " + missing};
  return {};
}

}  // namespace sluice
