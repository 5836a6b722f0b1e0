// SPDX-License-Identifier: Apache-2.0
// The launch parameters that only convolutions have: the traversal of the im2col operand, and the tensor
// maps.
#pragma once

#include <sluice/plan.h>
#include <sluice/run/driver/api.h>
#include <sluice/spec/params.h>

namespace sluice {

/// The names of A, B and D in torch's terms, for messages.
struct ConvNames {
  const char *a, *b, *d;
};
constexpr ConvNames names_of(const Conv& v) {
  switch (v.op) {
    case ConvOp::none: break;
    case ConvOp::fprop: return {"x", "w", "y"};
    case ConvOp::dgrad: return {"dy", "w", "dx"};
    case ConvOp::wgrad: return {"dy", "x", "dw"};
  }
  return {"A", "B", "D"};
}

/// Values that a launch needs to set addresses in the tensor maps. All zero for a plain matrix product.
struct ConvImage {
  int phases = 0;                     // number of phases of a strided dgrad; 0 for other convolutions
  i64 phase_bytes[kMostPhases] = {};  // byte offset from dx to each phase's first pixel
};

/// Fills in `params.gather` and `params.phases`, and encodes all tensor maps with a placeholder address. The
/// caller has filled in the other fields of `params`. Errors: invalid_size, invalid_stride, misaligned,
/// driver.
Result<ConvImage> fill_conv_params(const DriverApi& api, const Plan& plan, PhasedParams& params);

/// Sets the addresses of dy and dx in the tensor maps of all phases. Returns the first failing call's code.
CUresult set_phase_addresses(const DriverApi& api, const ConvImage& image, const void* dy, void* dx,
                             PhasedParams& params);

}  // namespace sluice
