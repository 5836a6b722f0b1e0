// SPDX-License-Identifier: Apache-2.0
// Simulated conversion of fp8 to fp16, which represents every e4m3 and e5m2.
#pragma once

#include <sluice/reference/element.h>
#include <sluice/spec/dtype.h>

#include "cuda_names.h"

namespace sluice::ptx {

/// Expands two pairs of fp8 to fp16: the low bytes to `low`.
template <DType kType>
void expand_fp8(u32 four, u32& low, u32& high) {
  static_assert(is_fp8(kType));
  static const std::vector<u32> codes = [] {
    std::vector<u32> all;
    for (u32 i = 0; i < 256; ++i) all.push_back(encode_code(DType::fp16, decode_code(kType, i)));
    return all;
  }();
  low = codes[four & 0xff] | codes[four >> 8 & 0xff] << 16;
  high = codes[four >> 16 & 0xff] | codes[four >> 24] << 16;
  if (simulated::cta.bug == simulated::Bug::repeated_fp8) high = low;
}

}  // namespace sluice::ptx
