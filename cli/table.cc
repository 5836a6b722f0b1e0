// SPDX-License-Identifier: Apache-2.0
// Pads cells with blanks. Cells are ASCII; the caller colours whole lines.
#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace sluice::cli {

Table::Table(std::vector<Column> columns, bool details) : columns_(std::move(columns)), details_(details) {
  for (Column& column : columns_)
    column.width = std::max(column.width, static_cast<int>(column.title.size()));
}

std::string Table::header() const {
  std::vector<std::string> titles, rules;
  for (const Column& column : columns_) {
    titles.push_back(column.title);
    rules.push_back(std::string(column.width, '-'));
  }
  return row(titles) + row(rules);
}

std::string Table::row(const std::vector<std::string>& cells) const {
  std::string line;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].detail && !details_) continue;
    const std::string cell = i < cells.size() ? cells[i] : "";
    if (!line.empty()) line += "  ";
    line += columns_[i].align == Align::left ? fmt::format("{:<{}}", cell, columns_[i].width)
                                             : fmt::format("{:>{}}", cell, columns_[i].width);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace sluice::cli
