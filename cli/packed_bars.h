// SPDX-License-Identifier: Apache-2.0
// Compares the results of the set `packed` with its speed targets ("bars"), as lines of text. There are
// targets relative to FP8 for up to 32 tokens (for each token type and for the faster one) and for 64 and 128
// e4m3 tokens. A target relative to 16-bit products is for 64 16-bit tokens.
#pragma once

#include <string>

#include <sluice/bench/record.h>

namespace sluice::cli {

/// Compares the shapes measured so far with the speed targets of packed products, for the pick and, with
/// `tuned`, the tuned kernel. Returns "" without packed shapes.
std::string packed_bars(const bench::RunRecord& run, bool tuned);

}  // namespace sluice::cli
