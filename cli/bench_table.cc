// SPDX-License-Identifier: Apache-2.0
// Ratios are the peer's time over ours, so above 1 sluice is faster. The read floor's column is the inverse:
// our time over the floor's. A dash means "not measured".
#include "cli/bench_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/table.h"

namespace sluice::cli {
namespace {

using bench::ContenderRecord;
using bench::kBestFp8;
using bench::kCudnnBest;
using bench::kCudnnDeterministic;
using bench::kCudnnFirst;
using bench::kHalfPeerBest;
using bench::kPeerBest;
using bench::kPeerFirst;
using bench::kReadFloor;
using bench::kSluice;
using bench::kSluiceRaced;
using bench::kSluiceTuned;
using bench::RunRecord;
using bench::ShapeRecord;

std::string number(double value, int digits) {
  return value > 0 ? fmt::format("{:.{}f}", value, digits) : "-";
}

double inverse(double value) {
  return value > 0 ? 1 / value : 0;
}

Table dense_table(bool tuned) {
  std::vector<Column> columns = {{.title = "problem", .width = 28, .align = Align::left},
                                 {.title = "sluice kernel", .width = 30, .align = Align::left},
                                 {.title = "us", .width = 8},
                                 {.title = "TFLOP/s", .width = 8},
                                 {.title = "peak", .width = 5},
                                 {.title = "first us", .width = 8, .detail = true},
                                 {.title = "best us", .width = 8},
                                 {.title = "x first", .width = 7, .detail = true},
                                 {.title = "x best", .width = 7}};
  if (tuned) {
    columns.push_back({.title = "tuned us", .width = 8});
    columns.push_back({.title = "x best", .width = 7});
  }
  columns.push_back({.title = "MHz", .width = 5, .detail = true});
  columns.push_back({.title = "W", .width = 4, .detail = true});
  columns.push_back({.title = "right", .width = 5, .align = Align::left});
  return Table(std::move(columns));
}

Table conv_table(bool tuned) {
  std::vector<Column> columns = {
      {.title = "convolution", .width = 60, .align = Align::left},
      {.title = "sluice kernel", .width = 30, .align = Align::left, .detail = true},
      {.title = "us", .width = 8},
      {.title = "TFLOP/s", .width = 8},
      {.title = "first us", .width = 8, .detail = true},
      {.title = "best us", .width = 8},
      {.title = "x first", .width = 7, .detail = true},
      {.title = "x best", .width = 7},
      {.title = "x same", .width = 7}};
  if (tuned) {
    columns.push_back({.title = "tuned us", .width = 8});
    columns.push_back({.title = "x best", .width = 7});
  }
  columns.push_back({.title = "MHz", .width = 5, .detail = true});
  columns.push_back({.title = "right", .width = 5, .align = Align::left});
  return Table(std::move(columns));
}

Table packed_table(bool tuned) {
  std::vector<Column> columns = {{.title = "problem", .width = 36, .align = Align::left},
                                 {.title = "sluice kernel", .width = 26, .align = Align::left},
                                 {.title = "us", .width = 7},
                                 {.title = "read us", .width = 7, .detail = true},
                                 {.title = "of read", .width = 8},
                                 {.title = "FP8", .width = 7},
                                 {.title = "x FP8", .width = 6},
                                 {.title = "16-bit", .width = 7, .detail = true},
                                 {.title = "x 16", .width = 6, .detail = true}};
  if (tuned)
    for (const char* title : {"tuned", "of read", "x FP8"}) columns.push_back({.title = title, .width = 8});
  columns.push_back({.title = "right", .width = 5, .align = Align::left});
  return Table(std::move(columns));
}

const ContenderRecord* find(const ShapeRecord& shape, const std::string& name) {
  for (const ContenderRecord& c : shape.contenders)
    if (c.name == name) return &c;
  return nullptr;
}

/// The parts of a kernel's name that differ between kernels of one problem: schedule, tile, stages and
/// cluster. For packed products: all words before the types.
std::string short_detail(const ShapeRecord& shape) {
  const ContenderRecord* ours = find(shape, kSluice);
  if (ours == nullptr) return "-";
  const std::string& detail = ours->detail;
  size_t end = is_packed(shape.problem) ? detail.size() : 0;
  if (is_packed(shape.problem))
    for (const char* types : {" fp16*", " bf16*", " e4m3*"}) end = std::min(end, detail.find(types));
  else
    for (int word = 0; word < 4 && end != std::string::npos; ++word) end = detail.find(' ', end + 1);
  return detail.substr(0, end);
}

double tflops(const ShapeRecord& shape, double us) {
  return us > 0 ? bench::flops_of(shape.problem) / us * 1e-6 : 0;
}

void append_ratio_line(const RunRecord& run, const char* ours, const char* peer, std::string& text) {
  const bench::RatioSummary s = bench::summarise_ratio(run, ours, peer);
  if (s.count == 0) return;
  text += fmt::format("{:<15} / {:<12}  geometric mean {:.3f}   least {:.3f}   over {}\n", peer, ours,
                      s.geometric_mean, s.least, counted(s.count, "shape"));
}

std::vector<std::string> dense_cells(const RunRecord& run, const ShapeRecord& shape, bool tuned) {
  const double us = bench::median_of(shape, kSluice), rate = tflops(shape, us);
  const double peak = bench::peak_tflops(run, shape.problem);
  std::vector<std::string> cells = {bench::name_of(shape.problem),
                                    short_detail(shape),
                                    number(us, 2),
                                    number(rate, 1),
                                    peak > 0 && rate > 0 ? fmt::format("{:.0f}%", 100 * rate / peak) : "-",
                                    number(bench::median_of(shape, kPeerFirst), 2),
                                    number(bench::median_of(shape, kPeerBest), 2),
                                    number(bench::ratio(shape, kSluice, kPeerFirst), 3),
                                    number(bench::ratio(shape, kSluice, kPeerBest), 3)};
  if (tuned) {
    cells.push_back(number(bench::median_of(shape, kSluiceTuned), 2));
    cells.push_back(number(bench::ratio(shape, kSluiceTuned, kPeerBest), 3));
  }
  cells.push_back(number(shape.telemetry.sm_mhz_median, 0));
  cells.push_back(number(shape.telemetry.power_w_max, 0));
  return cells;
}

std::vector<std::string> conv_cells(const ShapeRecord& shape, bool tuned) {
  const double us = bench::median_of(shape, kSluice);
  std::vector<std::string> cells = {bench::name_of(shape),
                                    short_detail(shape),
                                    number(us, 2),
                                    number(tflops(shape, us), 1),
                                    number(bench::median_of(shape, kCudnnFirst), 2),
                                    number(us * bench::ratio(shape, kSluice, kCudnnBest), 2),
                                    number(bench::ratio(shape, kSluice, kCudnnFirst), 3),
                                    number(bench::ratio(shape, kSluice, kCudnnBest), 3),
                                    number(bench::ratio(shape, kSluice, kCudnnDeterministic), 3)};
  if (tuned) {
    cells.push_back(number(bench::median_of(shape, kSluiceTuned), 2));
    cells.push_back(number(bench::ratio(shape, kSluiceTuned, kCudnnBest), 3));
  }
  cells.push_back(number(shape.telemetry.sm_mhz_median, 0));
  return cells;
}

std::vector<std::string> packed_cells(const ShapeRecord& shape, bool tuned) {
  const double us = bench::median_of(shape, kSluice), fp8 = bench::ratio(shape, kSluice, kBestFp8);
  std::vector<std::string> cells = {bench::name_of(shape.problem),
                                    short_detail(shape),
                                    number(us, 2),
                                    number(bench::median_of(shape, kReadFloor), 2),
                                    number(inverse(bench::ratio(shape, kSluice, kReadFloor)), 3),
                                    number(us * fp8, 2),
                                    number(fp8, 3),
                                    number(bench::median_of(shape, kHalfPeerBest), 2),
                                    number(bench::ratio(shape, kSluice, kHalfPeerBest), 3)};
  if (tuned) {
    cells.push_back(number(bench::median_of(shape, kSluiceTuned), 2));
    cells.push_back(number(inverse(bench::ratio(shape, kSluiceTuned, kReadFloor)), 3));
    cells.push_back(number(bench::ratio(shape, kSluiceTuned, kBestFp8), 3));
  }
  return cells;
}

Table table_of(Columns columns) {
  switch (columns.kind) {
    case LineKind::packed: return packed_table(columns.tuned);
    case LineKind::convolution: return conv_table(columns.tuned);
    case LineKind::dense: break;
  }
  return dense_table(columns.tuned);
}

std::vector<std::string> cells_of(const RunRecord& run, const ShapeRecord& shape, Columns columns) {
  switch (columns.kind) {
    case LineKind::packed: return packed_cells(shape, columns.tuned);
    case LineKind::convolution: return conv_cells(shape, columns.tuned);
    case LineKind::dense: break;
  }
  return dense_cells(run, shape, columns.tuned);
}

}  // namespace

Columns columns_of(const Problem& problem, bool tuned) {
  return {is_packed(problem)      ? LineKind::packed
          : is_conv(problem.conv) ? LineKind::convolution
                                  : LineKind::dense,
          tuned};
}

std::string shape_header(Columns columns) {
  return table_of(columns).header();
}

std::string shape_line(const RunRecord& run, const ShapeRecord& shape, bool tuned) {
  const Columns columns = columns_of(shape.problem, tuned);
  std::vector<std::string> cells = cells_of(run, shape, columns);
  cells.push_back(bench::all_verified(shape) ? "yes" : "NO");
  return table_of(columns).row(cells);
}

std::string shape_troubles(const ShapeRecord& shape) {
  std::string text;
  if (!shape.error.empty()) text += fmt::format("  {}\n", shape.error);
  for (const ContenderRecord& c : shape.contenders) {
    if (!c.error.empty())
      text += fmt::format("  {} ({}): {}\n", c.name, c.detail, c.error);
    else if (!c.verified && c.name.starts_with("cuBLASLt") && !shape.peer_caveat.empty())
      text += fmt::format("  {} ({}) is not compared: {}\n", c.name, c.detail, shape.peer_caveat);
    else if (!c.verified)
      text += fmt::format("  {} ({}) is wrong: {}\n", c.name, c.detail, c.verdict);
  }
  for (const bench::CandidateRecord& c : shape.candidates)
    if (!c.error.empty() || !c.verified)
      text += fmt::format("  candidate {}: {}\n", c.name, c.error.empty() ? "wrong result" : c.error);
  return text;
}

std::string summary_text(const RunRecord& run) {
  std::string text;
  for (const char* ours : {kSluice, kSluiceRaced, kSluiceTuned})
    for (const char* peer :
         {kPeerBest, kPeerFirst, kBestFp8, kHalfPeerBest, kCudnnBest, kCudnnFirst, kCudnnDeterministic})
      append_ratio_line(run, ours, peer, text);
  return text;
}

std::string contender_table(const RunRecord& run, const ShapeRecord& shape) {
  const Table table({{.title = "contender", .width = 15, .align = Align::left},
                     {.title = "us", .width = 9},
                     {.title = "p10", .width = 9},
                     {.title = "p90", .width = 9},
                     {.title = "TFLOP/s", .width = 8},
                     {.title = "GB/s", .width = 7},
                     {.title = "peak", .width = 5},
                     {.title = "launch us", .width = 9},
                     {.title = "right", .width = 5, .align = Align::left},
                     {.title = "kernel", .width = 34, .align = Align::left}});
  std::string text = table.header();
  const double peak = bench::peak_tflops(run, shape.problem);
  for (const ContenderRecord& c : shape.contenders) {
    const double us = c.error.empty() ? c.us.median : 0, rate = tflops(shape, us);
    text += table.row(
        {c.name, number(us, 2), number(c.us.p10, 2), number(c.us.p90, 2), number(rate, 1),
         us > 0 ? number((c.bytes > 0 ? c.bytes : bench::bytes_of_traffic(shape.problem)) / us * 1e-3, 0)
                : "-",
         peak > 0 && rate > 0 ? fmt::format("{:.0f}%", 100 * rate / peak) : "-", number(c.host_us, 2),
         c.verified ? "yes" : "NO", c.detail});
  }
  return text;
}

}  // namespace sluice::cli
