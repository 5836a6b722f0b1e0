// SPDX-License-Identifier: Apache-2.0
// `sluice plan`: what would run and why it should be fast. Needs no GPU: without one it plans for an H200, or
// for the GPU that --gpu names. It says whose rates it takes, and where they come from.
#include <fmt/format.h>

#include <memory>

#include <sluice/host/jit/source.h>

#include "cli/packed_run.h"
#include "cli/row_range.h"
#include "cli/table.h"
#include "cli/target.h"
#include "cli/verb.h"

namespace sluice::cli {
namespace {

struct PlanFlags {
  RequestFlags request;
  PackedFlags packed;
  PlanTarget target;
  std::string rows;
  bool all = false;
  bool unit = false;
};

Result<int> print_all(const ProblemRequest& request, const DeviceInfo& info) {
  const Result<std::vector<Plan>> plans = gemm::candidates(request.problem, info, request.overrides);
  if (!plans) return plans.error();
  const Table table({{.title = "", .width = 3},
                     {.title = "kernel", .width = 42, .align = Align::left},
                     {.title = "us", .width = 8},
                     {.title = "tensor"},
                     {.title = "L2", .width = 7},
                     {.title = "HBM", .width = 7},
                     {.title = "waves"},
                     {.title = "clusters"},
                     {.title = "walk", .width = 11, .align = Align::left}});
  fmt::print("{}", table.header());
  int rank = 0;
  for (const Plan& plan : *plans) {
    const Estimate& e = plan.estimate;
    const auto us = [](double value) { return fmt::format("{:.2f}", value); };
    fmt::print("{}", table.row({std::to_string(++rank), short_name(plan.config), us(e.total_us),
                                us(e.tensor_us), us(e.l2_us), us(e.hbm_us), std::to_string(e.waves),
                                std::to_string(plan.split.clusters),
                                fmt::format("{} {}", name_of(plan.split.raster), plan.split.group)}));
  }
  return kExitOk;
}

Result<int> print_rows(const PlanFlags& flags) {
  const Result<RowRange> rows = parse_rows(flags.rows);
  if (!rows) return rows.error();
  const Result<std::vector<AnyRequest>> requests = requests_of(flags.request, flags.packed);
  if (!requests) return requests.error();
  if (Result<void> none = refuse_overrides(flags.request, flags.packed, *requests); !none)
    return none.error();
  if (flags.all || flags.unit)
    return Error{ErrorCode::invalid_argument,
                 fmt::format("{} has no effect with --rows: leave it out", flags.all ? "--all" : "--unit")};
  const Result<Target> target = find_target(flags.target, options_from_environment());
  if (!target) return target.error();
  const DeviceInfo info = target->info();
  const auto print = [&](const auto& table) -> Result<int> {
    if (!table) return table.error();
    fmt::print("{}", describe(*table, info));
    return kExitOk;
  };
  if (const auto* dense = std::get_if<ProblemRequest>(&requests->front()))
    return print(gemm::plan_rows(dense->problem, *rows, info, target->records));
  const PackedProblem& problem = std::get<bench::PackedCase>(requests->front()).problem;
  return print(packed::plan_rows(problem, *rows, info, target->records));
}

Result<int> run_packed_plan(const PlanFlags& flags) {
  const Result<bench::PackedCase> item = packed_case_of(flags.request, flags.packed);
  if (!item) return item.error();
  const Result<Target> target = find_target(flags.target, options_from_environment());
  if (!target) return target.error();
  const Result<void> printed = print_packed_plan(*item, *target, {.all = flags.all, .unit = flags.unit});
  if (!printed) return printed.error();
  return kExitOk;
}

Result<int> run_plan(const PlanFlags& flags) {
  if (!flags.rows.empty()) return print_rows(flags);
  if (Result<void> good = check_dense(flags.packed); !good) return good.error();
  if (is_packed(flags.packed)) return run_packed_plan(flags);
  const Result<ProblemRequest> request = request_of(flags.request.problem);
  if (!request) return request.error();
  const Result<Target> target = find_target(flags.target, options_from_environment());
  if (!target) return target.error();
  const Result<Plan> plan = gemm::plan(request->problem, target->info(), request->overrides, target->records);
  if (!plan) return plan.error();
  fmt::print("{}{}", describe(*plan), describe(target->info()));
  for (const std::string& unit : flags.unit ? unit_texts(plan->config) : std::vector<std::string>{})
    fmt::print("\n{}\n", unit);
  if (!flags.all) return kExitOk;
  fmt::print("\n");
  return print_all(*request, target->info());
}

}  // namespace

Verb add_plan_verb(CLI::App& app) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* verb = app.add_subcommand("plan", "Show what would run for a problem, and the estimate");
  add_request_flags(*verb, flags->request);
  add_packed_flags(*verb, flags->packed);
  add_plan_target(*verb, flags->target);
  verb->add_option("--rows", flags->rows, kRowsHelp);
  verb->add_flag("--all", flags->all, "Every candidate, best estimate first");
  verb->add_flag("--unit", flags->unit, "The text that is compiled");
  return {verb, [flags] { return run_plan(*flags); }};
}

}  // namespace sluice::cli
