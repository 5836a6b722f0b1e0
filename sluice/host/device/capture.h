// SPDX-License-Identifier: Apache-2.0
// Capture state of a stream. Checked before calls that a capture forbids (compiling, loading, asking a stream
// for its id), and by the workspace lender. Called by gemm.cc, packed.cc and the C API's sessions.
#pragma once

#include <string>

#include <sluice/gemm.h>
#include <sluice/host/driver/api.h>

namespace sluice {

struct Capture {
  bool active = false;
  u64 id = 0;  // identifies the capture: unique in the process, unlike handles of streams and graphs
  CUgraph graph = nullptr;  // valid until the capture ends
};
/// Costs one driver call. Error driver: the stream cannot be asked (the legacy stream beside a capture), or
/// its capture was invalidated earlier.
Result<Capture> capture_of(const Device& device, Stream stream);

/// Refuses work that a capture forbids. A stream that cannot be asked because of another capture counts as
/// capturing, since compiling would invalidate that capture. Error not_prepared, "the stream is capturing and
/// " + `missing`; or driver.
Result<void> refuse_capture(const Device& device, Stream stream, const std::string& missing);

}  // namespace sluice
