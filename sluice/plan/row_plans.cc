// SPDX-License-Identifier: Apache-2.0
// Chooses a few kernels for a range of m (include/sluice/rows.h): those that the planner picks at fixed
// values of m. At any m the one with the best estimate runs.
#include <sluice/rows.h>
#include <sluice/try.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>

#include <sluice/kernels/registry.h>
#include <sluice/plan/constants.h>
#include <sluice/plan/dense/candidates.h>
#include <sluice/plan/dense/problem_checks.h>
#include <sluice/plan/packed/packed_plans.h>
#include <sluice/plan/text/units.h>

namespace sluice {
namespace {

using gemm::RowTable;
using packed::Taste;

/// Returns the plan with clusters numbered in launch order: numbers by GPC need an answer of the GPU, for
/// which a call in a prepared range must not wait.
Plan in_launch_order(Plan plan) {
  plan.split.numbering = Numbering::launch;
  return plan;
}
std::optional<Plan> with_config(const Problem& p, const KernelConfig& config, const DeviceInfo& device,
                                Taste taste) {
  return is_packed(p) ? packed::plan_with(p, config, device, taste) : plan_with(p, config, device);
}
/// Returns the estimate, corrected for kernels that the planner would not pick for this m: the model was not
/// fitted on those.
double us_of(const Plan& plan) {
  const KernelConfig& c = plan.config;
  if (is_plain(c.schedule))
    return plan.estimate.total_us *
           (1 + kPlanner.rows.row_too_many *
                    (c.tile.m - std::min(plain_rows(c.schedule, plan.problem.m), c.tile.m)));
  const bool unused = c.combine != Combine::none && plan.split.slices == 1;
  return plan.estimate.total_us * (unused ? kPlanner.rows.unused_split : 1.0);
}

Problem of_rows(Problem problem, i64 m) {
  problem.m = m;
  return problem;
}

/// Returns the values of m at which kernels are picked: both ends, and the fixed ones between them.
std::set<i64> fixed_rows(const Problem& problem, const RowRange& rows) {
  std::set<i64> fixed{rows.low, rows.high};
  for (const int m : tried::kRangeRows)
    if (m > rows.low && m < rows.high) fixed.insert(m);
  if (problem.a.major == Major::k) return fixed;
  // The stride of an MN-major A is m, and TMA loads A only if that is a multiple of 8. So each fixed m is
  // joined by the last multiple of 8 before it, and by an m that is none.
  for (const i64 m : std::set<i64>(fixed))
    for (const i64 other : {m - m % 8, m % 8 == 0 ? m - 1 : m})
      if (other >= rows.low) fixed.insert(other);
  return fixed;
}

/// Returns per kernel its plan for the problem, or nullopt. If the planner would consider any of them
/// (Taste::wanted) only those are returned, else all that are possible.
std::vector<std::optional<Plan>> offers(const Problem& checked, const std::vector<Plan>& kernels,
                                        const DeviceInfo& device) {
  std::vector<std::optional<Plan>> plans;
  for (const Taste taste : {Taste::wanted, Taste::possible}) {
    plans.clear();
    for (const auto& kernel : kernels) plans.push_back(with_config(checked, kernel.config, device, taste));
    if (std::any_of(plans.begin(), plans.end(), [](const auto& plan) { return plan.has_value(); })) break;
  }
  return plans;
}

/// Returns whether one of the kernels has this plan's config.
bool has_config(const std::vector<Plan>& kernels, const Plan& plan) {
  return std::any_of(kernels.begin(), kernels.end(),
                     [&](const Plan& kernel) { return kernel.config == plan.config; });
}

/// Returns the plan of one m: that of its record if its kernel is loaded, else the one with the best
/// estimate. Nullopt if no kernel can run the problem.
std::optional<Plan> plan_at(const RowTable& table, const Problem& checked, const DeviceInfo& device) {
  if (const auto recorded = gemm::recorded_plan(checked, device, table.records);
      recorded && has_config(table.kernels, *recorded))
    return in_launch_order(*recorded);
  std::optional<Plan> best;
  for (auto& plan : offers(checked, table.kernels, device))
    if (plan && (!best || us_of(*plan) < us_of(*best))) best = std::move(plan);
  return best;
}

/// Returns the number of different units of the plans.
int count_units(const std::vector<Plan>& plans) {
  std::set<std::string> units;
  for (const auto& plan : plans)
    for (std::string& unit : unit_texts(plan.config)) units.insert(std::move(unit));
  return static_cast<int>(units.size());
}

constexpr double kCannotServe = 1e300;  // us; its sums are finite

/// Returns the least of `us`, without the entry at `skipped`.
double least_without(const std::vector<double>& us, std::size_t skipped) {
  double least = kCannotServe;
  for (std::size_t i = 0; i < us.size(); ++i)
    if (i != skipped) least = std::min(least, us[i]);
  return least;
}

/// Drops kernels until at most kMostRowKernels units are left: each time the one without which the fixed m
/// lose least in all. `problems`: those of the fixed m.
void drop_to_limit(const std::vector<Problem>& problems, const DeviceInfo& device,
                   std::vector<Plan>& kernels) {
  if (count_units(kernels) <= kMostRowKernels) return;
  std::vector<std::vector<double>> times;  // per fixed m: the time of each kernel
  for (const auto& problem : problems) {
    std::vector<double>& us = times.emplace_back();
    for (const auto& plan : offers(problem, kernels, device))
      us.push_back(plan ? us_of(*plan) : kCannotServe);
  }
  while (count_units(kernels) > kMostRowKernels) {
    std::ptrdiff_t out = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      double sum = 0;
      for (const std::vector<double>& us : times) sum += least_without(us, i) / least_without(us, us.size());
      if (sum < least) out = static_cast<std::ptrdiff_t>(i), least = sum;
    }
    kernels.erase(kernels.begin() + out);
    for (std::vector<double>& us : times) us.erase(us.begin() + out);
  }
}

/// Drops kernels that serve none of the fixed m. Error internal: no kernel serves one of them.
Result<void> drop_idle(const std::vector<Problem>& problems, const DeviceInfo& device, RowTable& table) {
  std::vector<Plan> serving;
  for (const auto& problem : problems) {
    const auto plan = plan_at(table, problem, device);
    if (!plan)
      return Error{ErrorCode::internal, "no " + std::to_string(kMostRowKernels) +
                                            " kernels serve all rows from " + std::to_string(table.rows.low) +
                                            " to " + std::to_string(table.rows.high) +
                                            ": prepare a shorter range, and report this"};
    serving.push_back(*plan);
  }
  std::erase_if(table.kernels, [&](const auto& kernel) { return !has_config(serving, kernel); });
  return {};
}

Result<void> check_range(const Problem& problem, RowRange rows, const DeviceInfo& device) {
  if (rows.low < 1 || rows.low > rows.high)
    return Error{ErrorCode::invalid_size, "rows = " + std::to_string(rows.low) + " to " +
                                              std::to_string(rows.high) +
                                              " must be from at least 1 to at least as many: give the least "
                                              "number of rows, then the most"};
  SLUICE_TRY(check_device(device));
  for (const i64 end : {rows.low, rows.high}) SLUICE_TRY(check_problem(of_rows(problem, end)));
  return {};
}

}  // namespace

namespace gemm {

Result<RowTable> plan_rows(const Problem& problem, RowRange rows, const DeviceInfo& device,
                           const RecordBook& records) {
  SLUICE_TRY(check_range(problem, rows, device));
  RowTable table{.problem = of_rows(problem, rows.low), .rows = rows, .records = records};
  std::vector<Problem> problems;
  for (const i64 m : fixed_rows(problem, rows)) {
    SLUICE_TAKE(const Plan planned, plan(of_rows(problem, m), device, {}, records));
    const Plan pick = in_launch_order(planned);
    problems.push_back(pick.problem);
    if (!has_config(table.kernels, pick)) table.kernels.push_back(pick);
  }
  drop_to_limit(problems, device, table.kernels);
  SLUICE_TRY(drop_idle(problems, device, table));
  table.summary = {.kernels = count_units(table.kernels),
                   .splits = std::any_of(table.kernels.begin(), table.kernels.end(),
                                         [](const Plan& plan) { return uses_workspace(plan.config); })};
  return table;
}

Result<Plan> plan(const RowTable& table, i64 m, const DeviceInfo& device) {
  if (m < table.rows.low || m > table.rows.high)
    return Error{ErrorCode::invalid_size,
                 "m = " + std::to_string(m) + " must be in the range that was prepared, " +
                     std::to_string(table.rows.low) + " to " + std::to_string(table.rows.high) +
                     ": prepare a longer one, or plan this problem alone"};
  SLUICE_TAKE(const auto checked, check_problem(of_rows(table.problem, m)));
  if (auto plan = plan_at(table, checked, device)) return *std::move(plan);
  return Error{ErrorCode::invalid_config,
               "none of the range's kernels is for m = " + std::to_string(m) + ": plan this problem alone"};
}

}  // namespace gemm
}  // namespace sluice
