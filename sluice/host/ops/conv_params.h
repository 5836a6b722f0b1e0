// SPDX-License-Identifier: Apache-2.0
// The part of a launch's parameters that only convolutions have: how the gathered operand is walked, and its
// tensor maps.
#pragma once

#include <sluice/host/driver/api.h>
#include <sluice/plan.h>
#include <sluice/spec/params.h>

namespace sluice {

/// The names of A, B and D in torch's words.
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

/// A convolution's plan as its launches see it; empty for a product of matrices.
struct ConvImage {
  int phases = 0;                     // a strided dgrad has them
  i64 phase_bytes[kMostPhases] = {};  // from dx to a phase's first pixel
};

/// Fills in gather and phases and encodes all maps of the convolution, with a placeholder address. `params`
/// has its other fields. Errors: invalid_size, invalid_stride, misaligned, driver.
Result<ConvImage> fill_conv_params(const DriverApi& api, const Plan& plan, PhasedParams& params);

/// Puts the addresses of dy and dx into the maps of all phases.
CUresult set_phase_addresses(const DriverApi& api, const ConvImage& image, const void* dy, void* dx,
                             PhasedParams& params);

}  // namespace sluice
