// SPDX-License-Identifier: Apache-2.0
// The text of `sluice plan --rows`: one line per kernel of a range, with the values of m that it serves.
#include <sluice/rows.h>

#include <algorithm>
#include <string>

#include <sluice/plan/text/lines.h>

namespace sluice {
namespace {

/// Most values of m to plan for the text; a longer range is sampled at equal steps.
constexpr i64 kMostLines = 1 << 14;
/// Most intervals of m to print per kernel.
constexpr int kMostRuns = 8;

std::string run_text(i64 first, i64 last) {
  return first == last ? std::to_string(first) : std::to_string(first) + ".." + std::to_string(last);
}

/// Collects the values of m of one kernel, in ascending order, as intervals.
struct Runs {
  std::string kernel, text;
  int count = 0;
  i64 least = 0;  // m of the first run
  i64 first = 0, last = 0;

  void add(i64 m, i64 step) {
    if (count > 0 && m == last + step) {
      last = m;
      return;
    }
    flush();
    if (count++ == 0) least = m;
    first = last = m;
  }
  void flush() {
    if (count == 0 || count > kMostRuns) return;
    text += (text.empty() ? "" : ", ") + run_text(first, last);
  }
  std::string all() {
    flush();
    return count > kMostRuns ? text + " and " + std::to_string(count - kMostRuns) + " more" : text;
  }
};

}  // namespace

std::string describe(const gemm::RowTable& table, const DeviceInfo& device) {
  const i64 step = 1 + (table.rows.high - table.rows.low) / kMostLines;
  std::vector<Runs> runs;
  for (const auto& kernel : table.kernels) runs.push_back({.kernel = short_name(kernel.config)});
  for (i64 m = table.rows.low; m <= table.rows.high; m += step) {
    const auto plan = gemm::plan(table, m, device);
    if (!plan) continue;
    for (std::size_t i = 0; i < runs.size(); ++i)
      if (table.kernels[i].config == plan->config) runs[i].add(m, step);
  }
  std::string text = "rows      " + run_text(table.rows.low, table.rows.high) + " of " +
                     std::to_string(table.problem.n) + " x " + std::to_string(table.problem.k) +
                     "\nkernels   " + std::to_string(table.summary.kernels) + " compiled\n\n";
  std::stable_sort(runs.begin(), runs.end(), [](const Runs& x, const Runs& y) { return x.least < y.least; });
  for (Runs& run : runs)
    text += wrapped(run.kernel, 10) + "\n          m = " + wrapped(run.all(), 14, 14) + "\n";
  return text;
}

}  // namespace sluice
