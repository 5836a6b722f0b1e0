// SPDX-License-Identifier: Apache-2.0
// `sluice plan`: the kernel that would run, and its estimate. Needs no GPU: it plans for an H200, or for the
// GPU that --gpu names, and prints the source of its rates.
#include <fmt/format.h>

#include <memory>

#include <sluice/try.h>

#include "bench/errors.h"
#include "cli/requests.h"
#include "cli/row_range.h"
#include "cli/table.h"
#include "cli/target.h"
#include "cli/verb.h"

namespace sluice::cli {
namespace {

struct PlanFlags {
  RequestFlags request;
  PlanTarget target;
  std::string rows;
  bool all = false;
  bool unit = false;
};

std::string us_text(double value) {
  return fmt::format("{:.2f}", value);
}

Table dense_table() {
  return Table({{.title = "", .width = 3},
                {.title = "kernel", .width = 42, .align = Align::left},
                {.title = "us", .width = 8},
                {.title = "tensor"},
                {.title = "L2", .width = 7},
                {.title = "HBM", .width = 7},
                {.title = "waves"},
                {.title = "clusters"},
                {.title = "walk", .width = 11, .align = Align::left}});
}
Table packed_table() {
  return Table({{.title = "", .width = 3},
                {.title = "kernel", .width = 64, .align = Align::left},
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
std::vector<std::string> cells_of(const packed::Plan& plan) {
  return {packed::short_name(plan.config), us_text(plan.estimate_us), std::to_string(plan.smem_bytes)};
}

/// Prints each candidate, best estimate first.
Result<void> print_all(const bench::Request& request, const DeviceInfo& info) {
  SLUICE_TAKE(const std::vector<bench::AnyPlan> plans, candidates_of(request, info));
  const Table table = bench::is_packed(problem_of(request)) ? packed_table() : dense_table();
  fmt::print("\n{}", table.header());
  int rank = 0;
  for (const bench::AnyPlan& plan : plans) {
    std::vector<std::string> cells = std::visit([](const auto& p) { return cells_of(p); }, plan);
    cells.insert(cells.begin(), std::to_string(++rank));
    fmt::print("{}", table.row(cells));
  }
  return {};
}

Result<int> print_rows(const PlanFlags& flags) {
  SLUICE_TAKE(const RowRange rows, parse_rows(flags.rows));
  SLUICE_TAKE(const std::vector<bench::Request> requests, requests_of(flags.request));
  SLUICE_TRY(check_row_requests(flags.request, requests));
  if (flags.all || flags.unit)
    return Error{ErrorCode::invalid_argument,
                 fmt::format("{} has no effect with --rows: leave it out", flags.all ? "--all" : "--unit")};
  SLUICE_TAKE(const Target target, find_target(flags.target, options_from_environment()));
  const DeviceInfo info = target.info();
  SLUICE_TAKE(const bench::AnyRowTable table,
              bench::table_of(problem_of(requests.front()), rows, info, target.records));
  fmt::print("{}", std::visit([&](const auto& t) { return describe(t, info); }, table));
  return kExitOk;
}

/// Prints the plan, the lines about the GPU, and what the flags ask for.
Result<void> print_plan(const PlanFlags& flags, const bench::Request& request, const Target& target,
                        const std::string& gpu) {
  SLUICE_TAKE(const bench::AnyPlan plan, plan_of(request, target.info(), target.records));
  fmt::print("{}{}{}", pointwise_line(request), bench::describe(plan), gpu);
  for (const std::string& unit : flags.unit ? bench::units_of(plan, {}) : std::vector<std::string>{})
    fmt::print("\n{}\n", unit);
  if (flags.all) SLUICE_TRY(print_all(request, target.info()));
  return {};
}

/// Prints the plan of each problem, and once the GPU that they are for.
Result<int> run_plan(const PlanFlags& flags) {
  if (!flags.rows.empty()) return print_rows(flags);
  SLUICE_TAKE(const std::vector<bench::Request> requests, requests_of(flags.request));
  SLUICE_TAKE(const Target target, find_target(flags.target, options_from_environment()));
  const std::string gpu = stand_in_line(target) + describe(target.info());
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
  verb->add_flag("--all", flags->all, "Every candidate, best estimate first");
  verb->add_flag("--unit", flags->unit, "The text that is compiled");
  return {verb, [flags] { return run_plan(*flags); }};
}

}  // namespace sluice::cli
