// SPDX-License-Identifier: Apache-2.0
#include <sluice/host/capture.h>

#include <sluice/host/device_impl.h>
#include <sluice/host/driver/error.h>

namespace sluice {
namespace {

/// Was a call refused because of a capture?
bool is_of_capture(CUresult code) {
  return code >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && code <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

}  // namespace

Result<bool> is_capturing(const Device& device, Stream stream) {
  const ContextScope scope(*device.impl().primary);
  if (const Result<void> entered = scope.entered(); !entered) return entered.error();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const DriverApi& api = *device.impl().api;
  const CUresult code = api.cuStreamIsCapturing(stream, &status);
  if (is_of_capture(code)) return true;
  if (code != CUDA_SUCCESS) return driver_error(api, code, "cuStreamIsCapturing", "stream " + hex(stream));
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

Result<void> refuse_capture(const Device& device, Stream stream, const std::string& missing) {
  const Result<bool> capturing = is_capturing(device, stream);
  if (!capturing) return capturing.error();
  if (*capturing) return Error{ErrorCode::not_prepared, "the stream is capturing and " + missing};
  return {};
}

}  // namespace sluice
