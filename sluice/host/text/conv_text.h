// SPDX-License-Identifier: Apache-2.0
// A convolution as text, for plans and for the tool. Axes are printed outermost first, as in torch.
#pragma once

#include <string>

#include <sluice/spec/conv.h>

namespace sluice {

/// Returns "wgrad 32x64x56x56 * 64x3x3 stride 2 padding 1": input, filter, and whatever differs from stride 1
/// and padding 0. The tool's flags have the same names.
std::string conv_name(const Conv& conv);
/// Returns "wgrad: N 32, C 64, K 64, x 56x56, y 28x28, filter 3x3, stride 2, padding 1".
std::string conv_text(const Conv& conv);
/// Returns the line with conv_text in a plan's description.
std::string conv_line(const Conv& conv, const std::string& remark = "");

}  // namespace sluice
