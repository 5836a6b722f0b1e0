// SPDX-License-Identifier: Apache-2.0
// A convolution in words, for plans and for the tool. Axes are printed outermost first, as torch has them.
#pragma once

#include <string>

#include <sluice/spec/conv.h>

namespace sluice {

/// "wgrad 32x64x56x56 * 64x3x3 stride 2 padding 1": input, filter, and what differs from 1 and 0. These are
/// the flags of the tool.
std::string conv_name(const Conv& conv);
/// "wgrad: N 32, C 64, K 64, x 56x56, y 28x28, filter 3x3, stride 2, padding 1".
std::string conv_text(const Conv& conv);
/// The line of a plan's description that holds conv_text.
std::string conv_line(const Conv& conv, const std::string& remark = "");

}  // namespace sluice
