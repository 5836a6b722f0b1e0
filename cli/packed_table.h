// SPDX-License-Identifier: Apache-2.0
// Packed products' records as text: one line a shape.
#pragma once

#include <string>

#include "bench/record.h"

namespace sluice::cli {

std::string packed_header(bool tuned);
std::string packed_line(const bench::ShapeRecord& shape, bool tuned);

}  // namespace sluice::cli
