// SPDX-License-Identifier: Apache-2.0
// Text tables that can be printed row by row while a long job runs: column widths are fixed by the titles and
// by a given least width. A cell that is wider pushes its row, never loses text.
#pragma once

#include <string>
#include <vector>

namespace sluice::cli {

enum class Align { left, right };

struct Column {
  std::string title;
  int width = 0;  // at least; the title's length counts too
  Align align = Align::right;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns);

  /// Titles and a rule below them, each line ended.
  std::string header() const;
  /// One line, ended. Missing cells are empty; no blanks at the end of a line.
  std::string row(const std::vector<std::string>& cells) const;

 private:
  std::vector<Column> columns_;
};

}  // namespace sluice::cli
