// SPDX-License-Identifier: Apache-2.0
// Ratios are peer time over our time, so above 1 means that ours is faster; but for the plain read, whose
// column says how many times as long as it ours takes.
#include "cli/packed_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/table.h"

namespace sluice::cli {
namespace {

using bench::kBestFp8;
using bench::kReadFloor;
using bench::kSluice;
using bench::kSluiceTuned;
using bench::ShapeRecord;

std::string number(double value, int digits) {
  return value > 0 ? fmt::format("{:.{}f}", value, digits) : "-";
}
double inverse(double value) {
  return value > 0 ? 1 / value : 0;
}

Table table_of(bool tuned) {
  std::vector<Column> columns = {{.title = "problem", .width = 36, .align = Align::left},
                                 {.title = "sluice kernel", .width = 26, .align = Align::left},
                                 {.title = "us", .width = 7},
                                 {.title = "read us", .width = 7},
                                 {.title = "of read", .width = 8},
                                 {.title = "FP8", .width = 7},
                                 {.title = "x FP8", .width = 6},
                                 {.title = "16-bit", .width = 7},
                                 {.title = "x 16", .width = 6}};
  if (tuned)
    for (const char* title : {"tuned", "of read", "x FP8"}) columns.push_back({.title = title, .width = 8});
  columns.push_back({.title = "right", .width = 5, .align = Align::left});
  return Table(std::move(columns));
}

/// The first words of a kernel's name, before its types: what differs between kernels of one problem.
std::string short_detail(const ShapeRecord& shape) {
  for (const bench::ContenderRecord& c : shape.contenders) {
    if (c.name != kSluice) continue;
    size_t end = c.detail.size();
    for (const char* types : {" fp16*", " bf16*", " e4m3*"}) end = std::min(end, c.detail.find(types));
    return c.detail.substr(0, end);
  }
  return "-";
}

}  // namespace

std::string packed_header(bool tuned) {
  return table_of(tuned).header();
}

std::string packed_line(const ShapeRecord& shape, bool tuned) {
  const double fp8 = [&] {
    const double ours = bench::median_of(shape, kSluice), ratio = bench::ratio(shape, kSluice, kBestFp8);
    return ours * ratio;
  }();
  std::vector<std::string> cells = {bench::shape_name(shape),
                                    short_detail(shape),
                                    number(bench::median_of(shape, kSluice), 2),
                                    number(bench::median_of(shape, kReadFloor), 2),
                                    number(inverse(bench::ratio(shape, kSluice, kReadFloor)), 3),
                                    number(fp8, 2),
                                    number(bench::ratio(shape, kSluice, kBestFp8), 3),
                                    number(bench::median_of(shape, bench::kHalfPeerBest), 2),
                                    number(bench::ratio(shape, kSluice, bench::kHalfPeerBest), 3)};
  if (tuned) {
    cells.push_back(number(bench::median_of(shape, kSluiceTuned), 2));
    cells.push_back(number(inverse(bench::ratio(shape, kSluiceTuned, kReadFloor)), 3));
    cells.push_back(number(bench::ratio(shape, kSluiceTuned, kBestFp8), 3));
  }
  cells.push_back(bench::all_verified(shape) ? "yes" : "NO");
  return table_of(tuned).row(cells);
}

}  // namespace sluice::cli
