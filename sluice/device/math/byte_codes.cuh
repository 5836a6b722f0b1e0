// SPDX-License-Identifier: Apache-2.0
// Turns words of the order `byte` (docs/packing.md) into registers of four e4m3: (code - 8) * 2^-8, exactly.
// A word holds code - 7.5 as sign and magnitude. To subtract the other 0.5, the magnitude is increased by one
// step if the sign is set; this never carries out of a byte. Weights without stored zeros need no correction.
#pragma once

#include <sluice/spec/base.h>

namespace sluice {

inline constexpr int kByteZero = 8;      // the zero that is subtracted from every code
inline constexpr int kByteExponent = 8;  // register values are 2^-8 of (code - 8)
inline constexpr u32 kByteOnes = 0x38383838u;

/// Expands the words of one fragment: registers 0 and 1 come from the first, 2 and 3 from the second.
SLUICE_DEVICE void expand_bytes(const u32* words, u32 (&a)[4]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const u32 word = words[i];
    a[2 * i] = (word & 0x8E8E8E8Eu) + ((word & 0x80808080u) >> 6);
    a[2 * i + 1] = (word >> 3 & 0x0E0E0E0Eu) + (word & 0x01010101u) * 0x82u;
  }
}

}  // namespace sluice
