// SPDX-License-Identifier: Apache-2.0
// A tensor map tells TMA the layout of a batch of matrices in global memory, and the layout of a box of it in
// shared memory. prepare() encodes maps once with a placeholder address; a launch sets the address in its
// copy of the params. A map has three dimensions {inner, outer, batch}, or five with rows in the order of
// gated_row(). It is not interleaved, and fills with zeros out of bounds.
#pragma once

#include <sluice/run/driver/api.h>
#include <sluice/spec/params.h>

namespace sluice {

/// A batch of matrices, and the box that one TMA instruction copies. Sizes and strides are in elements.
struct TensorMapShape {
  DType type = DType::bf16;
  i64 inner = 0;  // the contiguous extent
  i64 outer = 0;
  i64 batch = 1;
  i64 ld = 0;            // ignored if outer is 1
  i64 batch_stride = 0;  // ignored if batch is 1
  int box_inner = 0;
  int box_outer = 0;
  int swizzle_bytes = 128;  // 128, 64 or 32; 16 means not swizzled
  bool gated = false;       // outer and box_outer are multiples of kGatedGroup

  constexpr bool operator==(const TensorMapShape&) const = default;
};

/// Encodes `map`. `name`: the operand's name in messages. Errors: misaligned (a stride that TMA cannot use),
/// invalid_size, invalid_stride, driver.
Result<void> encode_tensor_map(const DriverApi& api, const char* name, const TensorMapShape& shape,
                               TensorMap& map);

/// Return the driver's constants for a type and a swizzle; both kinds of tensor maps use them.
CUtensorMapDataType map_data_type(DType type);
CUtensorMapSwizzle map_swizzle(int bytes);
inline constexpr u64 kPlaceholderAddress = u64{1} << 30;

/// Sets the address in a map. `map` must have the alignment of CUtensorMap, and `address` that of 16 bytes.
/// Cheap; allocates nothing.
inline CUresult replace_address(const DriverApi& api, TensorMap& map, const void* address) {
  return api.cuTensorMapReplaceAddress(reinterpret_cast<CUtensorMap*>(&map), const_cast<void*>(address));
}

}  // namespace sluice
