// SPDX-License-Identifier: Apache-2.0
// The two rows of a block of 16 whose sums a lane has (ptx/mma.cuh), and what it reads for them: a pair of
// scales or zeros, neighbours in a packed tile (spec/packed_codes.h).
#pragma once

#include <sluice/spec/dtype.h>

namespace sluice {

struct RowPair {
  float upper, lower;  // of rows g and g + 8 of a block of 16
};

/// Two 16-bit values of one word, or two words of fp32.
template <DType kType>
SLUICE_DEVICE RowPair row_pair(u32 first, u32 second) {
  if constexpr (kType == DType::fp32) return {__uint_as_float(first), __uint_as_float(second)};
  if constexpr (kType == DType::bf16)
    return {__uint_as_float(first << 16), __uint_as_float(first & 0xFFFF0000u)};
  RowPair pair;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\ncvt.f32.f16 %0, low;\ncvt.f32.f16 %1, high;\n}"
      : "=f"(pair.upper), "=f"(pair.lower)
      : "r"(first));
  return pair;
}

}  // namespace sluice
