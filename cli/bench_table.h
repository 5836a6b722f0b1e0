// SPDX-License-Identifier: Apache-2.0
// Bench records as text for a terminal: one line per shape, and all contenders of one shape.
#pragma once

#include <string>

#include <sluice/bench/record.h>

namespace sluice::cli {

/// Kind of a table line. Packed products and convolutions are compared with other contenders than dense
/// products.
enum class LineKind { dense, packed, convolution };
struct Columns {
  LineKind kind = LineKind::dense;
  bool tuned = false;  // with a column for the tuned contender

  bool operator==(const Columns&) const = default;
};
Columns columns_of(const Problem& problem, bool tuned);
std::string shape_header(Columns columns);
std::string shape_line(const bench::RunRecord& run, const bench::ShapeRecord& shape, bool tuned);
/// Lists the shape's errors and wrong results, one line each; empty if there are none.
std::string shape_troubles(const bench::ShapeRecord& shape);
/// Geometric means and minima of the ratios over the shapes measured so far.
std::string summary_text(const bench::RunRecord& run);
/// Table of all contenders of one shape with their rates, as `sluice run` prints it.
std::string contender_table(const bench::RunRecord& run, const bench::ShapeRecord& shape);

}  // namespace sluice::cli
