// SPDX-License-Identifier: Apache-2.0
// Relaxed capture mode for calls such as cuMemAlloc and cuMemFree. Otherwise they end a capture of this
// thread, or one of any thread in mode "global" (PyTorch's default). Relaxed mode is safe where no captured
// work depends on the call itself.
#pragma once

#include <sluice/host/driver/api.h>

namespace sluice {

/// Switches this thread to relaxed capture mode for the object's lifetime.
class RelaxedCapture {
 public:
  /// Ignores a refused switch: the call that needs the mode reports what is wrong.
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
      CU_STREAM_CAPTURE_MODE_RELAXED;  // after the exchange: the thread's previous mode
  const bool exchanged_;
};

}  // namespace sluice
