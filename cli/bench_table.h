// SPDX-License-Identifier: Apache-2.0
// Bench records as text for a terminal: one line a shape, and the contenders of one shape in full.
#pragma once

#include <string>

#include "bench/record.h"

namespace sluice::cli {

/// The columns of a line: packed products and convolutions have peers of their own. `tuned` adds the tuned
/// contender's.
enum class LineKind { dense, packed, convolution };
struct Columns {
  LineKind kind = LineKind::dense;
  bool tuned = false;

  bool operator==(const Columns&) const = default;
};
Columns columns_of(const bench::AnyProblem& problem, const Conv& conv, bool tuned);
std::string shape_header(Columns columns);
std::string shape_line(const bench::RunRecord& run, const bench::ShapeRecord& shape, bool tuned);
/// The shape's errors and wrong results, a line each; empty if none.
std::string shape_troubles(const bench::ShapeRecord& shape);
/// Geometric means and minima over the shapes so far.
std::string summary_text(const bench::RunRecord& run);
/// All contenders of one shape with their rates; what `sluice run` prints.
std::string contender_table(const bench::RunRecord& run, const bench::ShapeRecord& shape);

}  // namespace sluice::cli
