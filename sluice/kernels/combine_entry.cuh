// SPDX-License-Identifier: Apache-2.0
// The kernel that adds up the rows of a token's experts, on the GPU: the norm's loads, stores and
// conversions, and predicated loads of one word. Launched by run/ops/experts/combine.cc.
#pragma once

#include <sluice/kernels/combine.cuh>
#include <sluice/kernels/norm_entry.cuh>

namespace sluice::combine {

struct DeviceArith : norm::DeviceArith {
  using Words = norm::Words;

  /// Loads a row number, or returns -1 if not `inside`, without a branch.
  SLUICE_DEVICE static i32 load_row(const i32* address, bool inside) {
    i32 row = -1;
    asm volatile("{\n.reg .pred inside;\nsetp.ne.u32 inside, %2, 0;\n@inside ld.global.s32 %0, [%1];\n}"
                 : "+r"(row)
                 : "l"(address), "r"(static_cast<u32>(inside)));
    return row;
  }
  /// Loads a weight, or returns 1 if not `inside`, without a branch.
  SLUICE_DEVICE static float load_weight(const float* address, bool inside) {
    float weight = 1.0f;
    asm volatile("{\n.reg .pred inside;\nsetp.ne.u32 inside, %2, 0;\n@inside ld.global.f32 %0, [%1];\n}"
                 : "+f"(weight)
                 : "l"(address), "r"(static_cast<u32>(inside)));
    return weight;
  }
};

}  // namespace sluice::combine
