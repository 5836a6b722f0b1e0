// SPDX-License-Identifier: Apache-2.0
// Text tables that are printed row by row during a long job. Titles and given minimum widths fix the column
// widths. A wider cell shifts the rest of its row, and no text is lost.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal.h"

namespace sluice::cli {

enum class Align { left, right };

struct Column {
  std::string title;
  int width = 0;  // minimum width; a longer title widens the column
  Align align = Align::right;
  bool detail = false;  // true: left out on a terminal, to keep lines within 110 columns
};

class Table {
 public:
  /// `details`: print the columns marked `detail`. By default they are printed unless stdout is a terminal.
  explicit Table(std::vector<Column> columns, bool details = !is_terminal(stdout));

  /// Returns the titles and a rule below them, each line ended by a newline.
  std::string header() const;
  /// Returns one line, ended by a newline. `cells` must include the cells of columns that are left out.
  /// Missing cells are empty; trailing blanks are removed.
  std::string row(const std::vector<std::string>& cells) const;

 private:
  std::vector<Column> columns_;
  bool details_;
};

}  // namespace sluice::cli
