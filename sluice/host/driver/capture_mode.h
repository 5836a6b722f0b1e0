// SPDX-License-Identifier: Apache-2.0
// Some calls (cuMemAlloc, cuMemFree) would end a capture that runs: on this thread, or on any thread whose
// capture is "global", PyTorch's default. They may be made all the same where no captured work depends on
// them having run, as with memory that whoever captures keeps alive.
#pragma once

#include <sluice/host/driver/api.h>

namespace sluice {

/// While it lives, captures forbid this thread nothing that they can do without.
class RelaxedCapture {
 public:
  /// A refusal is not an error: the call that the mode is for says what is wrong.
  explicit RelaxedCapture(const DriverApi& api)
      : api_(api), exchanged_(api.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS) {}
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() {
    if (exchanged_) api_.cuThreadExchangeStreamCaptureMode(&mode_);
  }

 private:
  const DriverApi& api_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // then the thread's own
  const bool exchanged_;
};

}  // namespace sluice
