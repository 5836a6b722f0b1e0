// SPDX-License-Identifier: Apache-2.0
// `sluice plan`: prints the kernel that would run, and its estimated time. Needs no GPU: it plans for an H200
// or the GPU that --gpu names. With --verbose it prints where that GPU's rates come from.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <set>
#include <sstream>

#include <sluice/compile.h>
#include <sluice/messages/errors.h>
#include <sluice/rows.h>
#include <sluice/text.h>
#include <sluice/try.h>

#include "cli/requests.h"
#include "cli/row_range.h"
#include "cli/table.h"
#include "cli/target.h"
#include "cli/verb.h"

namespace sluice::cli {
namespace {

constexpr int kAll = std::numeric_limits<int>::max();
// Number of leading words of a kernel's name that differ between candidates. Dense: schedule, tile, stages,
// cluster. Packed: shape, warps and so on.
constexpr size_t kDenseWords = 4, kPackedWords = 6;

struct PlanFlags {
  RequestFlags request;
  PlanTarget target;
  std::string rows;
  bool all = false, unit = false, verbose = false;
  int top = 0;  // number of candidates to print; 0: none

  int candidates() const { return all ? kAll : top; }
};

std::string us_text(double value) {
  return fmt::format("{:.2f}", value);
}

Table dense_table() {
  return Table({{.title = "", .width = 3},
                {.title = "kernel", .width = 44, .align = Align::left},
                {.title = "us", .width = 7},
                {.title = "tensor"},
                {.title = "L2", .width = 6},
                {.title = "HBM", .width = 6},
                {.title = "waves"},
                {.title = "grid"},
                {.title = "walk", .width = 10, .align = Align::left}});
}
Table packed_table() {
  return Table({{.title = "", .width = 3},
                {.title = "kernel", .width = 38, .align = Align::left},
                {.title = "us", .width = 8},
                {.title = "smem", .width = 7}});
}

std::vector<std::string> cells_of(const Plan& plan) {
  const Estimate& e = plan.estimate;
  return {short_name(plan.config),
          us_text(e.total_us),
          us_text(e.tensor_us),
          us_text(e.l2_us),
          us_text(e.hbm_us),
          std::to_string(e.waves),
          std::to_string(plan.split.clusters),
          fmt::format("{} {}", name_of(plan.split.raster), plan.split.group)};
}
std::vector<std::string> packed_cells_of(const Plan& plan) {
  return {short_name(plan.config), us_text(plan.estimate.total_us), std::to_string(plan.smem_bytes)};
}

/// Removes words that describe the problem and that all names have after their first `kept` words: types and
/// epilogue. "promoted" is removed too, although kernels that need no promotion lack it.
void drop_common_words(std::vector<std::vector<std::string>>& rows, size_t kept) {
  std::vector<std::vector<std::string>> names;
  for (const std::vector<std::string>& row : rows) {
    std::istringstream words(row.front());
    names.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
  }
  const auto in_all = [&](const std::string& word) {
    return std::all_of(names.begin(), names.end(), [&](const std::vector<std::string>& name) {
      return std::find(name.begin(), name.end(), word) != name.end();
    });
  };
  std::set<std::string> common{"promoted"};
  for (size_t i = kept; !names.empty() && i < names[0].size(); ++i)
    if (in_all(names[0][i])) common.insert(names[0][i]);
  for (size_t i = 0; i < names.size(); ++i) {
    std::vector<std::string> words;
    for (const std::string& word : names[i])
      if (words.size() < kept || !common.contains(word)) words.push_back(word);
    rows[i].front() = fmt::format("{}", fmt::join(words, " "));
  }
}

/// Prints the first `most` candidates, by ascending estimate.
Result<void> print_candidates(const bench::Request& request, const DeviceInfo& info, int most) {
  SLUICE_TAKE(const std::vector<Plan> plans, candidates_of(request, info));
  const bool packed = is_packed(request.problem);
  const Table table = packed ? packed_table() : dense_table();
  std::vector<std::vector<std::string>> rows;
  for (const Plan& plan : plans) rows.push_back(packed ? packed_cells_of(plan) : cells_of(plan));
  drop_common_words(rows, packed ? kPackedWords : kDenseWords);
  fmt::print("\n{}", table.header());
  for (int i = 0; i < std::min(most, static_cast<int>(rows.size())); ++i) {
    std::vector<std::string>& cells = rows[static_cast<size_t>(i)];
    cells.insert(cells.begin(), std::to_string(i + 1));
    fmt::print("{}", table.row(cells));
  }
  return {};
}

Result<int> print_rows(const PlanFlags& flags) {
  SLUICE_TAKE(const RowRange rows, parse_rows(flags.rows));
  SLUICE_TAKE(const std::vector<bench::Request> requests, requests_of(flags.request));
  SLUICE_TRY(check_row_requests(flags.request, requests));
  if (flags.candidates() > 0 || flags.unit)
    return Error{ErrorCode::invalid_argument,
                 fmt::format("{} has no effect with --rows: leave it out", flags.all    ? "--all"
                                                                           : flags.unit ? "--unit"
                                                                                        : "--top")};
  SLUICE_TAKE(const Target target, find_target(flags.target, options_from_environment()));
  const DeviceInfo info = target.info();
  SLUICE_TAKE(const gemm::RowTable table,
              gemm::plan_rows(requests.front().problem, rows, info, target.records));
  fmt::print("{}", describe(table, info));
  return kExitOk;
}

/// Prints the plan, the lines about the GPU, and any further output that the flags ask for.
Result<void> print_plan(const PlanFlags& flags, const bench::Request& request, const Target& target,
                        const std::string& gpu) {
  SLUICE_TAKE(const Plan plan, plan_of(request, target.info(), target.records));
  fmt::print("{}{}{}", pointwise_line(request), describe(plan), gpu);
  for (const std::string& unit : flags.unit ? gemm::units_of(plan) : std::vector<std::string>{})
    fmt::print("\n{}\n", unit);
  if (flags.candidates() > 0) SLUICE_TRY(print_candidates(request, target.info(), flags.candidates()));
  return {};
}

/// Prints the plan of each problem. The GPU that they are for is printed once.
Result<int> run_plan(const PlanFlags& flags) {
  if (!flags.rows.empty()) return print_rows(flags);
  SLUICE_TAKE(const std::vector<bench::Request> requests, requests_of(flags.request));
  SLUICE_TAKE(const Target target, find_target(flags.target, options_from_environment()));
  const DeviceInfo& info = target.info();
  const std::string gpu =
      stand_in_line(target) + (flags.verbose ? describe(info) : gpu_line(info.name, info.sm_count));
  if (requests.size() == 1) {
    SLUICE_TRY(print_plan(flags, requests.front(), target, gpu));
    return kExitOk;
  }
  fmt::print("{}", gpu);
  for (const bench::Request& request : requests) {
    fmt::print("\n");
    const Result<void> done = print_plan(flags, request, target, "");
    if (!done) return within(bench::name_of(request), done.error());
  }
  return kExitOk;
}

}  // namespace

Verb add_plan_verb(CLI::App& app) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* verb = app.add_subcommand("plan", "Show what would run for a problem, and the estimate");
  add_many_requests_flags(*verb, flags->request);
  add_plan_target(*verb, flags->target);
  verb->add_option("--rows", flags->rows, kRowsHelp);
  CLI::Option* all = verb->add_flag("--all", flags->all, "Every candidate, best estimate first");
  verb->add_option("--top", flags->top, "The first so many of them")
      ->check(CLI::Range(1, 100000))
      ->excludes(all);
  verb->add_flag("--verbose", flags->verbose, "The GPU's rates too, and where each comes from");
  verb->add_flag("--unit", flags->unit, "The text that is compiled");
  return {verb, [flags] { return run_plan(*flags); }};
}

}  // namespace sluice::cli
