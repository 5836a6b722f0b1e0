// SPDX-License-Identifier: Apache-2.0
// A warp's tensor core product, and the load of its second operand from shared memory. PTX ISA: mma.sync
// m16n8k16, ldmatrix. Lane 4 g + c holds rows g and g + 8 of A at k = 2c, 2c + 1, 2c + 8, 2c + 9, and column
// g of B at the same k. Its sums are those of rows g and g + 8, columns 2c and 2c + 1.
#pragma once

#include <sluice/spec/dtype.h>

namespace sluice::ptx {

// sums = a * b + start, in fp32
template <DType kType>
SLUICE_DEVICE void mma_m16n8k16(float (&sums)[4], const u32 (&a)[4], u32 b0, u32 b1,
                                const float (&start)[4]) {
  static_assert(is_16bit(kType));
  if constexpr (kType == DType::bf16)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%10,%11,%12,%13};"
        : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(start[0]), "f"(start[1]),
          "f"(start[2]), "f"(start[3]));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%10,%11,%12,%13};"
        : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(start[0]), "f"(start[1]),
          "f"(start[2]), "f"(start[3]));
}

// ldmatrix.x4: lanes 8i..8i+7 give the row addresses of the i-th 8x8 matrix of 16-bit elements
SLUICE_DEVICE void load_matrices(u32 row_address, u32& v0, u32& v1, u32& v2, u32& v3) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v0), "=r"(v1), "=r"(v2), "=r"(v3)
               : "r"(row_address)
               : "memory");
}

}  // namespace sluice::ptx
