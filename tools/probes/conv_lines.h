// SPDX-License-Identifier: Apache-2.0
// Convolutions as text: a line of flags, "--input 32x64x56x56 --filter 64x3x3 --stride 2 --padding 0:1x1".
// Lists are outermost first, one number for all axes or one for each; padding is BEFORE:AFTER where the two
// differ.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/contender/cudnn_problem.h"

namespace sluice::probes {

/// The convolution of a line's flags: --conv, --input, --filter, --stride, --padding, --dilation, --dtype,
/// --d. `defaults` gives operation and types where the line does not. Error invalid_argument: an unknown
/// flag, a list of another length; those of bench::check.
Result<bench::CudnnConvolution> parse_conv(std::string_view line, const bench::CudnnConvolution& defaults);

/// All lines of a file, each for every operation in `operations`; '#' begins a comment. A line with --conv
/// counts once. Errors: io; those of parse_conv, with the line's number.
Result<std::vector<bench::CudnnConvolution>> read_conv_file(const std::string& path,
                                                            const std::vector<ConvOp>& operations,
                                                            const bench::CudnnConvolution& defaults);

/// "wgrad 32x64x56x56 * 64x3x3 /2 p1 bf16": what parse_conv reads, shortened.
std::string short_name(const bench::CudnnConvolution& p);
/// The flags that parse_conv reads back.
std::string flags_of(const bench::CudnnConvolution& p);

}  // namespace sluice::probes
