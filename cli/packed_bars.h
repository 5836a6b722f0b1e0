// SPDX-License-Identifier: Apache-2.0
// The bars of the set `packed`, as lines of text. Compared with FP8: up to 32 tokens of each type and of the
// faster type, and 64 and 128 e4m3 tokens. Compared with 16 bits: 64 16-bit tokens.
#pragma once

#include <string>

#include "bench/record.h"

namespace sluice::cli {

/// Compares the shapes measured so far with the speed targets of packed products, for the pick and, with
/// `tuned`, the tuned kernel. Returns "" without packed shapes.
std::string packed_bars(const bench::RunRecord& run, bool tuned);

}  // namespace sluice::cli
