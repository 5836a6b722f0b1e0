// SPDX-License-Identifier: Apache-2.0
// fp8 to fp16, which represents every e4m3 and e5m2. PTX ISA: cvt, "e4m3x2 and e5m2x2 to f16x2".
#pragma once

#include <sluice/spec/dtype.h>

namespace sluice::ptx {

/// Expands two pairs of fp8, the lower one first.
template <DType kType>
SLUICE_DEVICE void expand_fp8(u32 four, u32& low, u32& high) {
  if constexpr (kType == DType::e4m3)
    asm("{\n.reg .b16 x, y;\nmov.b32 {x, y}, %2;\ncvt.rn.f16x2.e4m3x2 %0, x;\ncvt.rn.f16x2.e4m3x2 %1, y;\n}"
        : "=r"(low), "=r"(high)
        : "r"(four));
  else
    asm("{\n.reg .b16 x, y;\nmov.b32 {x, y}, %2;\ncvt.rn.f16x2.e5m2x2 %0, x;\ncvt.rn.f16x2.e5m2x2 %1, y;\n}"
        : "=r"(low), "=r"(high)
        : "r"(four));
}

}  // namespace sluice::ptx
