// SPDX-License-Identifier: Apache-2.0
// Warpgroup matrix multiply-accumulate: ordering, shared-memory descriptors, and the primary template of the
// wrappers that tools/gen_wgmma.py writes to generated/ (one file per n). PTX ISA 9.7.15 (sm_90a).
#pragma once

#include <sluice/spec/dtype.h>

namespace sluice::ptx {

// wgmma.fence: orders register and shared accesses before the first wgmma of a batch
SLUICE_DEVICE void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
SLUICE_DEVICE void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// wgmma.wait_group: all but the newest kPending groups have finished
template <int kPending>
SLUICE_DEVICE void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Keeps the compiler from moving uses of an accumulator across asynchronous instructions.
template <int kCount>
SLUICE_DEVICE void pin_registers(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

/// Keeps the compiler from moving uses of A's registers across asynchronous instructions.
template <int kCount>
SLUICE_DEVICE void pin_registers(u32 (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(values[i]));
}

/// Matrix descriptor with 128-byte swizzle (PTX ISA "matrix descriptor"): 14-bit fields in units of 16 bytes.
///   bits 0-13 start, 16-29 leading offset, 32-45 stride offset, 62-63 layout (1 = 128-byte swizzle).
/// K-major:  stride = from one group of 8 rows to the next; leading offset unused.
/// MN-major: stride = from one group of 8 k to the next; leading = from one block of 64 m (or n) to the next.
SLUICE_DEVICE u64 smem_descriptor(u32 address, u32 leading_bytes, u32 stride_bytes) {
  return static_cast<u64>((address & 0x3ffff) >> 4) | static_cast<u64>(leading_bytes >> 4) << 16 |
         static_cast<u64>(stride_bytes >> 4) << 32 | u64{1} << 62;
}

/// D[64 x kN] (+)= A[64 x 32 bytes] * B[32 bytes x kN]; `accumulate` 0 overwrites D. Thread t of the
/// warpgroup holds
///   d[4j+0], d[4j+1]: row 16(t/32) + (t%32)/4,     columns 8j + 2(t%4), +1
///   d[4j+2], d[4j+3]: row 16(t/32) + (t%32)/4 + 8, the same columns
/// kTransA, kTransB: 1 for MN-major operands (16-bit types).
template <DType kA, DType kB, int kN>
struct Wgmma;

/// Wgmma with A in registers, 16-bit types, K-major B. Thread t holds rows 16(t/32) + (t%32)/4 and + 8 of A.
/// a[0] and a[1] hold columns 2(t%4) and 2(t%4) + 1; a[2] and a[3] hold these columns + 8; even registers
/// hold the upper row. Registers of A must not be written before wait_group has retired the instruction.
template <DType kType, int kN>
struct WgmmaRs;

}  // namespace sluice::ptx
