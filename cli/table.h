// SPDX-License-Identifier: Apache-2.0
// Text tables that are printed row by row during a long job. Titles and given minima fix the column widths; a
// wider cell moves the rest of its row and loses no text.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal.h"

namespace sluice::cli {

enum class Align { left, right };

struct Column {
  std::string title;
  int width = 0;  // least width; the title may need more
  Align align = Align::right;
  bool detail = false;  // left out on a terminal, where lines of 110 columns are read
};

class Table {
 public:
  /// `details`: whether columns of detail are printed; by default where stdout is no terminal.
  explicit Table(std::vector<Column> columns, bool details = !is_terminal(stdout));

  /// Titles and a rule below them, each line ended.
  std::string header() const;
  /// One line, ended. `cells` are of all columns, those that are left out included. Missing cells are empty;
  /// no blanks at the end of a line.
  std::string row(const std::vector<std::string>& cells) const;

 private:
  std::vector<Column> columns_;
  bool details_;
};

}  // namespace sluice::cli
