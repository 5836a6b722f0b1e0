// SPDX-License-Identifier: Apache-2.0
// Mixed products' records as text: one line a shape, and the bars that the set `mixed` is held to.
#pragma once

#include <string>

#include "bench/record.h"

namespace sluice::cli {

std::string mixed_header(bool tuned);
std::string mixed_line(const bench::ShapeRecord& shape, bool tuned);

/// The bars over the shapes so far (docs/mixed.md), of the pick and, if there is one, of the tuned kernel.
/// Empty if a run has no mixed shape.
std::string mixed_bars(const bench::RunRecord& run, bool tuned);

}  // namespace sluice::cli
