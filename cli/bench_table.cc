// SPDX-License-Identifier: Apache-2.0
// Ratios are peer time over our time, so above 1 means that sluice is faster. A dash is "not measured".
#include "cli/bench_table.h"

#include <fmt/format.h>

#include "bench/shapes.h"
#include "cli/table.h"

namespace sluice::cli {
namespace {

using bench::ContenderRecord;
using bench::kPeerBest;
using bench::kPeerFirst;
using bench::kSluice;
using bench::kSluiceTuned;
using bench::RunRecord;
using bench::ShapeRecord;

std::string number(double value, int digits) {
  return value > 0 ? fmt::format("{:.{}f}", value, digits) : "-";
}

/// The part of a kernel's name that differs between kernels of one problem: schedule, tile, stages, cluster.
std::string short_detail(const std::string& detail) {
  size_t end = 0;
  for (int word = 0; word < 4 && end != std::string::npos; ++word) end = detail.find(' ', end + 1);
  return detail.substr(0, end);
}

Table shape_table(bool tuned) {
  std::vector<Column> columns = {{.title = "problem", .width = 28, .align = Align::left},
                                 {.title = "sluice kernel", .width = 30, .align = Align::left},
                                 {.title = "us", .width = 8},
                                 {.title = "TFLOP/s", .width = 8},
                                 {.title = "peak", .width = 5},
                                 {.title = "first us", .width = 8},
                                 {.title = "best us", .width = 8},
                                 {.title = "x first", .width = 7},
                                 {.title = "x best", .width = 7}};
  if (tuned) {
    columns.push_back({.title = "tuned us", .width = 8});
    columns.push_back({.title = "x best", .width = 7});
  }
  columns.push_back({.title = "MHz", .width = 5});
  columns.push_back({.title = "W", .width = 4});
  columns.push_back({.title = "right", .width = 5, .align = Align::left});
  return Table(std::move(columns));
}

const ContenderRecord* find(const ShapeRecord& shape, const std::string& name) {
  for (const ContenderRecord& c : shape.contenders)
    if (c.name == name) return &c;
  return nullptr;
}

double tflops(const ShapeRecord& shape, double us) {
  return us > 0 ? bench::flops_of(shape.problem) / us * 1e-6 : 0;
}

void append_ratio_line(const RunRecord& run, const char* ours, const char* peer, std::string& text) {
  const bench::RatioSummary s = bench::summarise_ratio(run, ours, peer);
  if (s.count == 0) return;
  text += fmt::format("{:<14} / {:<12}  geometric mean {:.3f}   least {:.3f}   over {} shapes\n", peer, ours,
                      s.geometric_mean, s.least, s.count);
}

}  // namespace

std::string shape_header(bool tuned) {
  return shape_table(tuned).header();
}

std::string shape_line(const RunRecord& run, const ShapeRecord& shape, bool tuned) {
  const ContenderRecord* ours = find(shape, kSluice);
  const double us = bench::median_of(shape, kSluice), rate = tflops(shape, us);
  const double peak = bench::peak_tflops(run, shape.problem);
  std::vector<std::string> cells = {bench::shape_name(shape),
                                    ours != nullptr ? short_detail(ours->detail) : "-",
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
  cells.push_back(bench::all_verified(shape) ? "yes" : "NO");
  return shape_table(tuned).row(cells);
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
  for (const char* ours : {kSluice, kSluiceTuned})
    for (const char* peer : {kPeerBest, kPeerFirst, bench::kBestFp8, bench::kHalfPeerBest})
      append_ratio_line(run, ours, peer, text);
  return text;
}

std::string contender_table(const RunRecord& run, const ShapeRecord& shape) {
  const Table table({{.title = "contender", .width = 14, .align = Align::left},
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
    text +=
        table.row({c.name, number(us, 2), number(c.us.p10, 2), number(c.us.p90, 2), number(rate, 1),
                   us > 0 ? number((c.bytes > 0 ? c.bytes : bench::shape_bytes(shape)) / us * 1e-3, 0) : "-",
                   peak > 0 && rate > 0 ? fmt::format("{:.0f}%", 100 * rate / peak) : "-",
                   number(c.host_us, 2), c.verified ? "yes" : "NO", c.detail});
  }
  return text;
}

}  // namespace sluice::cli
