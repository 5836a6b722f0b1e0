// SPDX-License-Identifier: Apache-2.0
// A convolution as text, for plans and for the tool. Axes are printed outermost first, as in torch.
#pragma once

#include <string>

#include <sluice/spec/conv.h>

namespace sluice {

/// Returns "wgrad: N 32, C 64, K 64, x 56x56, y 28x28, filter 3x3, stride 2, padding 1".
std::string conv_text(const Conv& conv);

}  // namespace sluice
