// SPDX-License-Identifier: Apache-2.0
// Convolutions: their operations and traffic. conv.cc also has the sets of convolutions that
// sluice/bench/sets.h names.
#pragma once

#include <sluice/bench/sets.h>

namespace sluice::bench {

/// Floating-point operations: two for each combination of image, pixel of y, tap, channel and filter, padding
/// included.
double conv_flops(const Conv& conv);

/// Numbers of elements of the product's operands.
struct ConvElements {
  i64 a = 0, b = 0, d = 0;
};
/// Counts the elements that must move at least once. Of x, only pixels that some tap reads count: a 1x1
/// filter with stride 2 reads a quarter of them. dgrad writes all of dx.
ConvElements conv_elements(const Conv& conv);

/// For each operand, the elements from its first to its last, gaps between pixels included.
ConvElements conv_spans(const Conv& conv);

}  // namespace sluice::bench
