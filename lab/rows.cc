// SPDX-License-Identifier: Apache-2.0
// `sluice_lab rows`: measures on this GPU how much slower few kernels for a range of rows are than the best
// kernel for each m. The measurements are in lab/rows/rows.h; this file chooses problems, prints and stores.
#include <fmt/format.h>

#include <memory>

#include <sluice/bench/whole_file.h>
#include <sluice/try.h>

#include "cli/bounded.h"
#include "cli/command_line.h"
#include "cli/measure_flags.h"
#include "cli/row_range.h"
#include "cli/table.h"
#include "cli/target.h"
#include "lab/rows/record.h"
#include "lab/verbs.h"

namespace sluice::lab {

using namespace cli;  // flags, tables, progress
namespace {

struct RowsFlags {
  RequestFlags requests;
  std::string rows = "1:512", json, commit, device = "0";
  int hang_s = 120;
  RowsMethod how;
  bench::Method method{.rounds = 5, .rest_ms = 5, .replay_us = 1500, .peer = false};
};

Table rows_table() {
  return Table({{.title = "layer", .width = 34, .align = Align::left},
                {.title = "kernels", .width = 8},
                {.title = "alone", .width = 6, .detail = true},
                {.title = "model %", .width = 8, .detail = true},
                {.title = "mean %", .width = 7},
                {.title = "worst %", .width = 8},
                {.title = "at", .width = 5},
                {.title = "first call us", .width = 14},
                {.title = "worst", .width = 8},
                {.title = "at", .width = 5}});
}

void print_layer(const RowsRecord& layer) {
  i64 worst = 0;
  double most = -1;
  for (const RowPoint& point : layer.points)
    if (point.error.empty() && point.loss() > most) worst = point.m, most = point.loss();
  const auto percent = [](double share) { return fmt::format("{:.2f}", 100 * share); };
  fmt::print(
      "{}",
      rows_table().row(
          {layer.name, std::to_string(layer.summary.kernels), std::to_string(layer.model.kernels_alone),
           percent(layer.model.mean_loss), percent(layer.mean_loss()), percent(layer.worst_loss()),
           std::to_string(worst), fmt::format("{:.1f}", layer.first_calls.median_us),
           fmt::format("{:.1f}", layer.first_calls.worst_us), std::to_string(layer.first_calls.worst_m)}));
  const auto trouble = [](const std::string& text) {
    if (!text.empty()) fmt::print("  {}\n", paint(stdout, Colour::red, text));
  };
  trouble(layer.error);
  trouble(layer.first_calls.error);
  if (layer.first_calls.kernels_made > 0)
    trouble(
        fmt::format("{} kernels were made in calls that should make none", layer.first_calls.kernels_made));
  for (const RowPoint& point : layer.points)
    if (!point.error.empty()) trouble(fmt::format("{}: {}", counted(point.m, "row"), point.error));
  std::fflush(stdout);
}

Result<int> run_rows(const RowsFlags& flags) {
  RowsMethod how = flags.how;
  SLUICE_TAKE(how.rows, parse_rows(flags.rows));
  SLUICE_TAKE(const std::vector<bench::Request> requests, requests_of(flags.requests));
  SLUICE_TRY(check_row_requests(flags.requests, requests));
  SLUICE_TAKE(const Device device,
              gpu_of(flags.device, options_from_environment(),
                     "rows measures GPUs: without one, plan --rows prints what the cost model says"));
  SLUICE_TAKE(const auto opened, bench::open_lab(device, {.method = flags.method}));
  const bench::Lab& lab = *opened;
  const bench::RunRecord run = run_record(lab, flags.commit);
  fmt::print("{}, {} to {} rows, {} of them drawn with seed {}\n{}", run.gpu, how.rows.low, how.rows.high,
             how.numbers, how.seed, rows_table().header());

  Job job("rows", flags.hang_s, requests.size());
  std::vector<RowsRecord> layers;
  for (const bench::Request& request : requests) {
    const Problem& problem = request.problem;
    layers.push_back(measure_rows(lab, problem, how, job.part(bench::name_of(problem))));
    job.clear();
    print_layer(layers.back());
    if (!flags.json.empty()) SLUICE_TRY(bench::write_whole(to_json(run, how, layers), flags.json));
    SLUICE_TRY(bench::still_alive(lab));
  }
  const RowsSummary sum = summarise(layers);
  fmt::print(
      "\n{}, {} with another kernel than their own: {:.2f} % slower in the mean, {:.2f} % at most; "
      "at most {} per layer; the longest first call took {:.0f} us\n",
      counted(sum.points, "point"), sum.timed, 100 * sum.mean_loss, 100 * sum.worst_loss,
      counted(sum.most_kernels, "kernel"), sum.worst_call_us);
  return sum.all_right ? kExitOk : kExitNo;
}

}  // namespace

Verb add_rows_verb(CLI::App& app) {
  auto flags = std::make_shared<RowsFlags>();
  RowsFlags& f = *flags;
  CLI::App* verb = app.add_subcommand(
      "rows", "Time few kernels for a range of numbers of rows beside a kernel for each, and first calls");
  add_many_requests_flags(*verb, f.requests);
  verb->add_option("--rows", f.rows, kRowsHelp)->capture_default_str();
  bounded(verb->add_option("--numbers", f.how.numbers,
                           "Numbers of rows to time, drawn from equal parts of the range"),
          1, 4096);
  verb->add_option("--draw", f.how.seed, "Seed of the draw")->capture_default_str();
  verb->add_option("--json", f.json, "Write the results here, after every layer");
  add_replay_flags(*verb, f.method, "kernel");
  add_run_flags(*verb, f.commit, f.hang_s);
  verb->add_option("--device", f.device, "Number of the GPU")->capture_default_str();
  return {verb, [flags] { return run_rows(*flags); }};
}

}  // namespace sluice::lab
