// SPDX-License-Identifier: Apache-2.0
// Tensor maps of TMA's im2col mode. A box is a run of pixels of a tensor of channels, axes and images; it
// continues in the next row and the next image. A launch sets the address, as in tensor_map.h.
#pragma once

#include <sluice/run/driver/tensor_map.h>

namespace sluice {

/// Arguments of cuTensorMapEncodeIm2col, innermost dimension first: channels, w, h, d, images. Sizes and
/// strides are in elements; corners have one value each for w, h and d. Along an axis the first pixels of
/// boxes are in [lower, extent + upper), `steps` apart.
struct Im2colShape {
  DType type = DType::bf16;
  int rank = 4;  // axes + 2
  i64 extents[5] = {};
  i64 strides[4] = {};  // from the second dimension on
  int lower[kMostSpatial] = {}, upper[kMostSpatial] = {};
  int channels = 64, pixels = 64;  // the size of one load
  int steps[5] = {1, 1, 1, 1, 1};
  int swizzle_bytes = 128;

  constexpr bool operator==(const Im2colShape&) const = default;
};

/// Encodes `map`. `name`: the operand's name in messages. Errors: invalid_size, misaligned, driver.
Result<void> encode_im2col_map(const DriverApi& api, const char* name, const Im2colShape& shape,
                               TensorMap& map);

}  // namespace sluice
