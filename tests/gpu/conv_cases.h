// SPDX-License-Identifier: Apache-2.0
// Convolutions for the GPU tests: named geometries, kernels to compute them with, and random geometries. Few
// kernels serve all geometries, since sizes come at run time.
#pragma once

#include <vector>

#include <sluice/conv.h>

namespace sluice::testing {

struct NamedConv {
  const char* name;
  Conv conv;  // without an op
};
std::vector<NamedConv> named_convs();
/// Geometries for tools that slow kernels down: 3x3 with padding and pixels apart, 3x3/2 (phases of a dgrad),
/// one axis, whose many pixels split a wgrad, and three axes. No channels are whole blocks.
std::vector<Conv> small_convs();

/// A way to compute one of the three products.
struct ConvVariant {
  const char* name;
  ConvOp op;
  PlanOverrides overrides{};
  DType inputs = DType::bf16, output = DType::bf16;
  Epilogue epilogue{};
  bool deterministic = true;
  Accumulate accumulate = Accumulate::fast;
};
/// All of them; the first of each op is the planner's choice.
std::vector<ConvVariant> conv_variants();

/// The plan of `conv` by `variant`. Errors: the variant cannot compute it.
Result<Plan> plan_conv(Conv conv, const ConvVariant& variant, const DeviceInfo& device);

/// Equal seeds give equal geometries. All pass conv::problem() for 16-bit types.
Conv random_conv(u64 seed);

}  // namespace sluice::testing
