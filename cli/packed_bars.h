// SPDX-License-Identifier: Apache-2.0
// The bars that the set `packed` is held to, as lines of text: at most 32 tokens of each type and of the
// faster of the two beside FP8, 64 and 128 e4m3 tokens beside FP8, 64 16-bit tokens beside 16 bits.
#pragma once

#include <string>

#include "bench/record.h"

namespace sluice::cli {

/// Over the shapes so far, of the pick and, if there is one, of the tuned kernel. Empty if a run has no
/// packed shape.
std::string packed_bars(const bench::RunRecord& run, bool tuned);

}  // namespace sluice::cli
