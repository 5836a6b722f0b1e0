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
  explicit RelaxedCapture(const DriverApi& api) : api_(api) { exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() { exchange(); }

 private:
  /// A refusal is not looked at: the call that the mode is for says what is wrong.
  void exchange() { api_.cuThreadExchangeStreamCaptureMode(&mode_); }

  const DriverApi& api_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace sluice
