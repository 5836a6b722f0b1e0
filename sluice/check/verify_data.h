// SPDX-License-Identifier: Apache-2.0
// Computes the layout of a problem's operands in one block of device memory; needs no GPU. Called by
// verify.cc; tested by tests/unit/verify_data_test.cc.
#pragma once

#include <sluice/check/verify.h>

namespace sluice {

inline constexpr i64 kRegionAlign = 256;  // bytes; the alignment that cuMemAlloc guarantees

/// The regions, by their offsets from the start of the block; `base` of each region is still null.
struct DataLayout {
  Region regions[kRegionCount];
  i64 region_begin[kRegionCount];
  i64 bytes;  // size of the block
};

/// Returns the layout. Errors: invalid_stride (matrices of a batch overlap, so an element would have two
/// values), invalid_size (more than 2^58 elements, or a negative size).
Result<DataLayout> lay_out(const Problem& problem, const DataSpec& spec);

/// Returns the table of the problem's groups; empty if it has none. balanced: sizes differ by one pitch
/// (ends) or are alike; skewed: the last eighth of the groups has half of the rows; one: all rows belong to
/// one group, as many as fit it.
std::vector<int> table_of(const Problem& problem, Routing routing, u64 seed);

}  // namespace sluice
