// SPDX-License-Identifier: Apache-2.0
// Where the operands of a problem lie inside one block of device memory: arithmetic, no GPU.
// Called by verify.cc; tested on its own by tests/unit/verify_data_test.cc.
#pragma once

#include <sluice/check/verify.h>

namespace sluice {

inline constexpr i64 kRegionAlign = 256;  // as cuMemAlloc aligns

/// Offsets from the start of the block; `base` of each region is still null.
struct DataLayout {
  Region regions[kRegionCount];
  i64 region_begin[kRegionCount];
  i64 bytes;  // all of it
};

/// Error invalid_stride: the matrices of a batch overlap, so that an element would have two values.
/// Error invalid_size: past 2^58 elements, or a negative size.
Result<DataLayout> lay_out(const Problem& problem, const DataSpec& spec);

}  // namespace sluice
