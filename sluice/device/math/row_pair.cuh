// SPDX-License-Identifier: Apache-2.0
// A lane's pair of rows: the two rows of a block of 16 for which it holds sums (ptx/mma.cuh). Also their
// operands, two scales or zeros, which are neighbours in a packed tile (spec/packed_codes.h).
#pragma once

#include <sluice/device/element.cuh>

namespace sluice {

struct RowPair {
  float upper, lower;  // rows g and g + 8 of a block of 16
};

/// Unpacks two 16-bit values from one word, or two fp32 values from two words.
template <DType kType>
SLUICE_DEVICE RowPair row_pair(u32 first, u32 second) {
  if constexpr (kType == DType::fp32)
    return {__uint_as_float(first), __uint_as_float(second)};
  else {
    const Pair pair = unpack_16bit<kType>(first);
    return {pair.x, pair.y};
  }
}

}  // namespace sluice
