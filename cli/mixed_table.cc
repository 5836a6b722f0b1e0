// SPDX-License-Identifier: Apache-2.0
// Ratios are peer time over our time, so above 1 means that ours is faster; but for the read floor, whose
// column says how many times as long as it ours takes.
#include "cli/mixed_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "bench/statistics.h"
#include "cli/table.h"

namespace sluice::cli {
namespace {

using bench::kBestFp8;
using bench::kReadFloor;
using bench::kSluice;
using bench::kSluiceTuned;
using bench::ShapeRecord;

constexpr double kLargeWeights = 64 << 20;  // elements
constexpr double kSmallWeights = 11 << 20;  // (1280, 8192) and (8192, 1024)

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
                                 {.title = "floor", .width = 7},
                                 {.title = "of floor", .width = 8},
                                 {.title = "FP8", .width = 7},
                                 {.title = "x FP8", .width = 6},
                                 {.title = "16-bit", .width = 7},
                                 {.title = "x 16", .width = 6}};
  if (tuned)
    for (const char* title : {"tuned", "of floor", "x FP8"}) columns.push_back({.title = title, .width = 8});
  columns.push_back({.title = "right", .width = 5, .align = Align::left});
  return Table(std::move(columns));
}

/// The first words of a kernel's name: what differs between kernels of one problem.
std::string short_detail(const ShapeRecord& shape) {
  for (const bench::ContenderRecord& c : shape.contenders)
    if (c.name == kSluice)
      return c.detail.substr(0, c.detail.find(" fp16*") < c.detail.find(" bf16*") ? c.detail.find(" fp16*")
                                                                                  : c.detail.find(" bf16*"));
  return "-";
}

double weights_of(const ShapeRecord& shape) {
  return static_cast<double>(shape.mixed->n) * static_cast<double>(shape.mixed->k);
}

std::string verdict(bool met, const std::string& text) {
  return fmt::format("  {} {}\n", met ? "met:    " : "NOT met:", text);
}

std::string bars_of(const bench::RunRecord& run, const char* ours) {
  std::string text;
  std::vector<double> all, large, others, smallest;
  for (const ShapeRecord& shape : run.shapes) {
    if (!shape.mixed) continue;
    const double fp8 = bench::ratio(shape, ours, kBestFp8), floor = bench::ratio(shape, ours, kReadFloor);
    const MixedProblem& p = *shape.mixed;
    if (p.m == 16 && p.n == 3584 && p.k == 8192 && p.weights.group == 64) {
      text += verdict(fp8 > 0 && inverse(fp8) <= 0.70,
                      fmt::format("1: 16x3584x8192 g64 takes {:.3f} of FP8's time (bar 0.70)", inverse(fp8)));
      text += verdict(floor > 0 && inverse(floor) <= 1.20,
                      fmt::format("1: and {:.3f} of a plain read (bar 1.20)", inverse(floor)));
      continue;
    }
    if (fp8 <= 0) continue;
    all.push_back(fp8);
    if (weights_of(shape) >= kLargeWeights) large.push_back(fp8);
    (weights_of(shape) < kSmallWeights ? smallest : others).push_back(fp8);
  }
  const auto mean = [&](const std::vector<double>& ratios, double bar, const char* what) {
    if (ratios.empty()) return;
    const double value = bench::geometric_mean(ratios);
    text +=
        verdict(value >= bar, fmt::format("2: {}: geometric mean {:.3f} x FP8's speed over {} shapes (bar "
                                          "{:.2f})",
                                          what, value, ratios.size(), bar));
  };
  const auto least = [&](const std::vector<double>& ratios, double bar, const char* what) {
    if (ratios.empty()) return;
    const double value = bench::least(ratios);
    text += verdict(value >= bar, fmt::format("2: {}: least {:.3f} (bar {:.2f})", what, value, bar));
  };
  mean(all, 1.55, "all");
  mean(large, 1.70, "weights of 64 M elements and more");
  least(others, 1.20, "all but the two smallest layers");
  least(smallest, 1.00, "the two smallest layers");
  return text.empty() ? "" : fmt::format("bars, {}:\n{}", ours, text);
}

}  // namespace

std::string mixed_header(bool tuned) {
  return table_of(tuned).header();
}

std::string mixed_line(const ShapeRecord& shape, bool tuned) {
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

std::string mixed_bars(const bench::RunRecord& run, bool tuned) {
  return bars_of(run, kSluice) + (tuned ? bars_of(run, kSluiceTuned) : "");
}

}  // namespace sluice::cli
