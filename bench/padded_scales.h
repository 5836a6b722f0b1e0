// SPDX-License-Identifier: Apache-2.0
// Block scales as cuBLASLt reads them: it takes a row of scales of 128 x 128 blocks to be a multiple of four
// long (manual, "Scaling factors layouts"), ours are as long as k has blocks. Padding them is a copy of a few
// kilobytes, so the bench makes it, and the two can be compared for every k.
#pragma once

#include <sluice/host/driver/memory.h>

namespace sluice::bench {

inline constexpr i64 kPeerScaleRow = 4;

/// `rows` x `blocks` fp32 scales at `source`, with zeros behind each row up to a multiple of four, in stream
/// order. Errors: driver.
Result<DeviceBuffer> padded_scales(const Device& device, const float* source, i64 rows, i64 blocks,
                                   Stream stream);

}  // namespace sluice::bench
