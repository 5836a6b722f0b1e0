// SPDX-License-Identifier: Apache-2.0
// The capture state of a stream. It is checked before calls that a capture forbids (compiling, loading,
// asking for a stream's id). Called by ops/kept.h and the workspace lender.
#pragma once

#include <string>

#include <sluice/gemm.h>
#include <sluice/run/driver/api.h>

namespace sluice {

struct Capture {
  bool active = false;
  u64 id = 0;               // unique in the process, unlike handles of streams and graphs
  CUgraph graph = nullptr;  // valid until the capture ends
};
/// Returns the stream's capture state; one driver call. Error driver: the driver does not answer for this
/// stream (the legacy stream while another stream captures), or the stream's capture was invalidated earlier.
Result<Capture> capture_of(const Device& device, Stream stream);

/// Returns an error if the stream is capturing, for work that a capture forbids. If the driver does not
/// answer because another stream captures, that counts as capturing: compiling would invalidate that capture.
/// Errors: not_prepared, "the stream is capturing and " + `missing`; driver.
Result<void> refuse_capture(const Device& device, Stream stream, const std::string& missing);

}  // namespace sluice
