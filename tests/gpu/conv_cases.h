// SPDX-License-Identifier: Apache-2.0
// Convolutions for the GPU tests: named geometries, kernels to compute them with, and random geometries.
// Sizes are run-time parameters, so a few kernels compute all geometries.
#pragma once

#include <vector>

#include <sluice/conv.h>

namespace sluice::testing {

struct NamedConv {
  const char* name;
  Conv conv;  // `op` is not set
};
std::vector<NamedConv> named_convs();
/// Small geometries for tools that slow kernels down. A 3x3 filter with padding and gaps between pixels; 3x3
/// with stride 2, whose dgrad has phases; one axis with so many pixels that a wgrad is split; three axes. No
/// number of channels is a multiple of a block.
std::vector<Conv> small_convs();

/// One kernel choice for one of the three products of a convolution.
struct ConvVariant {
  const char* name;
  ConvOp op;
  PlanOverrides overrides{};
  DType inputs = DType::bf16, output = DType::bf16;
  Epilogue epilogue{};
  bool deterministic = true;
  Accumulate accumulate = Accumulate::fast;
};
/// Returns all variants. For each op, the first is the planner's choice.
std::vector<ConvVariant> conv_variants();

/// Plans `conv` as the variant says. Error: the variant cannot compute this convolution.
Result<Plan> plan_conv(Conv conv, const ConvVariant& variant, const DeviceInfo& device);

/// Returns a random geometry, the same for equal seeds. conv::problem() accepts it with 16-bit types.
Conv random_conv(u64 seed);

}  // namespace sluice::testing
