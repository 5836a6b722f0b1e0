// SPDX-License-Identifier: Apache-2.0
// Is a stream being captured? Asked before what a capture forbids: compiling and loading, allocating, asking
// a stream for its id. Called by gemm.cc, mixed.cc and the C
// API's sessions.
#pragma once

#include <string>

#include <sluice/gemm.h>

namespace sluice {

/// A stream that may not be asked because of a capture (the legacy stream beside one) counts as capturing:
/// compiling then would spoil the capture. Error driver: it cannot be asked for another reason.
Result<bool> is_capturing(const Device& device, Stream stream);

/// For what a capture forbids. Error not_prepared, "the stream is capturing and " + `missing`; or driver.
Result<void> refuse_capture(const Device& device, Stream stream, const std::string& missing);

}  // namespace sluice
