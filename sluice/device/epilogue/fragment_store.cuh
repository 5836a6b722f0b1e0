// SPDX-License-Identifier: Apache-2.0
// Writes elements of D from a WGMMA fragment into a swizzled store buffer of 64 rows (with swapped operands,
// of 64 columns). The buffer has the layout of D's tensor map: rows of store_row_bytes, 16-byte units
// permuted by the row.
//   thread t: rows 16(t/32) + (t%32)/4 and +8, columns 8j + 2(t%4) and +1 of the j-th group of 8 columns
#pragma once

#include <sluice/spec/smem_layout.h>
#include <sluice/device/element.cuh>
#include <sluice/device/epilogue/element_wise.cuh>
#include <sluice/device/ptx/shared.cuh>

namespace sluice {

/// TMA's swizzle: within each 1,024 bytes (or less), bits 4-6 of the offset are xored with bits 7-9, masked
/// to the row.
template <int kRowBytes>
SLUICE_DEVICE u32 swizzle(u32 offset) {
  constexpr u32 kUnits = kRowBytes / 16;  // 8, 4, 2 or 1 units of 16 bytes take part
  return offset ^ ((offset >> 7 & (kUnits - 1)) << 4);
}

template <DType kType, int kRowBytes, bool kSwapped>
struct FragmentStore {
  u32 buffer;
  int thread;  // in the warpgroup

  /// Writes kGroups groups of 8 columns from group `first` on; stmatrix takes two at a time.
  template <int kGroups>
  SLUICE_DEVICE void write(int first, const FragmentPairs (&groups)[kGroups]) const {
    static_assert(kGroups == 1 || kGroups == 2);
    if constexpr (is_16bit(kType)) {
      const int lane = thread % 32, matrix = lane / 8;  // matrices: upper, lower of group 0, then of group 1
      const int row = thread / 32 * 16 + matrix % 2 * 8 + lane % 8;
      const u32 address =
          buffer + swizzle<kRowBytes>(row * kRowBytes + (first + (kGroups == 2 ? matrix / 2 : 0)) * 16);
      const u32 upper = pack_16bit<kType>(groups[0].upper.x, groups[0].upper.y);
      const u32 lower = pack_16bit<kType>(groups[0].lower.x, groups[0].lower.y);
      if constexpr (kGroups == 2)
        ptx::stmatrix_x4(address, upper, lower, pack_16bit<kType>(groups[1].upper.x, groups[1].upper.y),
                         pack_16bit<kType>(groups[1].lower.x, groups[1].lower.y));
      else
        ptx::stmatrix_x2(address, upper, lower);
    } else {
#pragma unroll
      for (int i = 0; i < kGroups; ++i) {
        const int row = thread / 32 * 16 + thread % 32 / 4;
        const int byte = ((first + i) * 8 + thread % 4 * 2) * bytes_of(kType);
        store_pair(buffer + swizzle<kRowBytes>(row * kRowBytes + byte), groups[i].upper);
        store_pair(buffer + swizzle<kRowBytes>((row + 8) * kRowBytes + byte), groups[i].lower);
      }
    }
  }

 private:
  static SLUICE_DEVICE void store_pair(u32 address, Pair value) {
    if constexpr (kType == DType::fp32)
      ptx::store_shared_v2(address, value.x, value.y);
    else
      ptx::store_shared_u16(address, pack_e4m3(value.x, value.y));
  }
};

/// The store with swapped operands. Rows of the tile are D's columns, so each 8 x 8 block is transposed as it
/// is stored.
template <DType kType, int kRowBytes>
struct FragmentStore<kType, kRowBytes, true> {
  static_assert(is_16bit(kType));
  u32 buffer;
  int thread;  // in the warpgroup

  template <int kGroups>
  SLUICE_DEVICE void write(int first, const FragmentPairs (&groups)[kGroups]) const {
    static_assert(kGroups == 1 || kGroups == 2);
    const int lane = thread % 32, matrix = lane / 8;  // as above
    const int row = (first + (kGroups == 2 ? matrix / 2 : 0)) * 8 + lane % 8;
    const int unit = thread / 32 * 2 + matrix % 2;
    const u32 address = buffer + swizzle<kRowBytes>(row * kRowBytes + unit * 16);
    const u32 upper = pack_16bit<kType>(groups[0].upper.x, groups[0].upper.y);
    const u32 lower = pack_16bit<kType>(groups[0].lower.x, groups[0].lower.y);
    if constexpr (kGroups == 2)
      ptx::stmatrix_x4_trans(address, upper, lower, pack_16bit<kType>(groups[1].upper.x, groups[1].upper.y),
                             pack_16bit<kType>(groups[1].lower.x, groups[1].lower.y));
    else
      ptx::stmatrix_x2_trans(address, upper, lower);
  }
};

}  // namespace sluice
