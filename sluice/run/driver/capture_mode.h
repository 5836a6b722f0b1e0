// SPDX-License-Identifier: Apache-2.0
// Relaxed capture mode for calls such as cuMemAlloc and cuMemFree. In other modes these calls invalidate a
// capture of this thread, or a "global" capture (PyTorch's default) of any thread. Relaxed mode is safe if no
// captured work depends on the call itself.
#pragma once

#include <sluice/run/driver/api.h>

namespace sluice {

/// Puts this thread into relaxed capture mode during the object's lifetime.
class RelaxedCapture {
 public:
  /// A failure to switch is ignored: the call that needs the mode then reports the error.
  explicit RelaxedCapture(const DriverApi& api)
      : api_(api), exchanged_(api.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS) {}
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() {
    if (exchanged_) api_.cuThreadExchangeStreamCaptureMode(&mode_);
  }

 private:
  const DriverApi& api_;
  CUstreamCaptureMode mode_ =
      CU_STREAM_CAPTURE_MODE_RELAXED;  // after the exchange it holds the thread's previous mode
  const bool exchanged_;
};

}  // namespace sluice
