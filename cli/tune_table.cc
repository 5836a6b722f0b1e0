// SPDX-License-Identifier: Apache-2.0
// Every problem gets a line; the line of a skipped one states the reason.
#include "cli/tune_table.h"

#include <fmt/format.h>

#include <sluice/bench/sets.h>

#include "cli/table.h"

namespace sluice::cli {
namespace {

using bench::Trial;
using bench::TrialState;
using bench::TuneResult;
using bench::TuneState;

const Table& table() {
  static const Table columns({{.title = "problem", .width = 36, .align = Align::left},
                              {.title = "model us", .width = 9, .detail = true},
                              {.title = "best us", .width = 9},
                              {.title = "gain", .width = 6},
                              {.title = "tried", .width = 5, .detail = true},
                              {.title = "best", .width = 60, .align = Align::left}});
  return columns;
}

std::string us_text(double us) {
  return us > 0 ? fmt::format("{:.2f}", us) : "-";
}

/// "cooperative 256x128 s4 c2x1, along_m 8", "cooperative 128x192 s5 c1x1 swapped, along_n 4", "ping_pong
/// 64x64 s11 c1x1x4, along_m 1, 4 slices".
std::string dense_choice_text(const Plan& plan) {
  const KernelConfig& c = plan.config;
  std::string text = fmt::format("{} {}x{} s{} c{}x{}", name_of(c.schedule), c.tile.m, c.tile.n, c.stages,
                                 c.cluster.m, c.cluster.n);
  if (c.cluster.k > 1) text += fmt::format("x{}", c.cluster.k);
  if (is_swapped(c)) text += " swapped";
  text += fmt::format(", {} {}", name_of(plan.split.raster), plan.split.group);
  if (plan.split.numbering == Numbering::gpc) text += " gpc";
  if (plan.split.slices > 1) text += fmt::format(", {} slices", plan.split.slices);
  return text;
}

/// For packed products returns for example "narrow 16x64 w8 s3 p2 b1", without the weight format, which the
/// problem's name has.
std::string choice_text(const Plan& plan) {
  if (!is_packed(plan.problem)) return dense_choice_text(plan);
  const std::string name = short_name(plan.config);
  return name.substr(0, name.find(std::string(" ") + name_of(plan.problem.a.type) + "*"));
}

std::string what_became(const TuneResult& result) {
  switch (result.state) {
    case TuneState::tuned: return choice_text(result.trials[static_cast<size_t>(result.best)].plan);
    case TuneState::known: return "skipped: has a record (--again measures it anew)";
    case TuneState::no_time: return "skipped: no time left in the budget";
    case TuneState::failed: return "FAILED: " + result.message;
  }
  return "";
}

}  // namespace

std::string tune_header() {
  return table().header();
}

std::string tune_line(const TuneResult& result, const std::string& name) {
  const int tried = result.count(TrialState::right);
  return table().row({name.empty() ? bench::name_of(result.problem) : name, us_text(result.pick_us()),
                      us_text(result.best_us()),
                      result.pick_us() > 0 && result.best >= 0 ? fmt::format("{:.3f}", result.gain()) : "-",
                      tried > 0 ? std::to_string(tried) : "-", what_became(result)});
}

std::string tune_troubles(const TuneResult& result) {
  std::string text;
  for (const Trial& trial : result.trials)
    if (trial.state == TrialState::wrong || trial.state == TrialState::failed)
      text += fmt::format("    {} {}: {}\n", trial.state == TrialState::wrong ? "WRONG" : "failed",
                          choice_text(trial.plan), trial.message);
  return text;
}

std::string tune_summary(const std::vector<TuneResult>& results, const std::string& where, double seconds) {
  const bench::TuneSummary s = bench::summarise(results);
  std::string text =
      fmt::format("{} to {}; skipped: {} with a record, {} without time; {} failed; {:.0f} s\n",
                  counted(s.tuned, "record"), where, s.known, s.no_time, s.failed, seconds);
  if (s.tuned > 0)
    text += fmt::format(
        "gain over the model's pick: geometric mean {:.3f}, most {:.3f}{}; the pick is as "
        "good in {} of {}\n",
        s.mean_gain, s.worst_gain, s.worst.empty() ? "" : " (" + s.worst + ")", s.within_noise, s.tuned);
  if (s.recorded > 0)
    text += fmt::format("gain over the records until now: geometric mean {:.3f} of {}\n", s.mean_record_gain,
                        s.recorded);
  if (s.wrong_kernels + s.failed_kernels > 0)
    text += fmt::format("of all candidates {} were WRONG and {} failed\n", s.wrong_kernels, s.failed_kernels);
  return text;
}

}  // namespace sluice::cli
