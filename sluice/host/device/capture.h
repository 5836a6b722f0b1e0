// SPDX-License-Identifier: Apache-2.0
// Is a stream being captured, and into which graph? Asked before what a capture forbids (compiling and
// loading, asking a stream for its id), and by the lender of workspaces. Called by gemm.cc, packed.cc and the
// C API's sessions.
#pragma once

#include <string>

#include <sluice/gemm.h>
#include <sluice/host/driver/api.h>

namespace sluice {

/// What a stream is captured into.
struct Capture {
  bool active = false;
  u64 id = 0;  // of the capture: unique in the process, as neither streams' handles nor graphs' are
  CUgraph graph = nullptr;  // until the capture ends
};
/// One call of the driver. Error driver: it cannot be asked (the legacy stream beside a capture), or the
/// capture was lost before.
Result<Capture> capture_of(const Device& device, Stream stream);

/// For what a capture forbids. A stream that may not be asked because of a capture (the legacy stream beside
/// one) counts as capturing: compiling then would spoil the capture. Error not_prepared, "the stream is
/// capturing and " + `missing`; or driver.
Result<void> refuse_capture(const Device& device, Stream stream, const std::string& missing);

}  // namespace sluice
