// SPDX-License-Identifier: Apache-2.0
// Chooses a few kernels for a range of m (include/sluice/rows.h). Candidates are the best plans of each
// sampled m and the near best. Each is estimated at every sampled m, and few_kernels.h chooses. Dense and
// packed products share this code; the template parameter Kind holds the differences.
#include <sluice/rows.h>
#include <sluice/try.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>

#include <sluice/host/jit/source.h>
#include <sluice/host/planner/constants.h>
#include <sluice/host/planner/dense/candidates.h>
#include <sluice/host/planner/dense/problem_checks.h>
#include <sluice/host/planner/few_kernels.h>
#include <sluice/host/planner/packed/packed_plans.h>
#include <sluice/host/planner/packed/packed_problem_checks.h>
#include <sluice/host/text/packed_units.h>
#include <sluice/kernels/registry.h>

namespace sluice {
namespace {

using packed::Taste;

/// Kind of dense products.
struct Dense {
  using Problem = sluice::Problem;
  using Plan = sluice::Plan;
  using Table = gemm::RowTable;

  static Result<Problem> check(const Problem& p) { return check_problem(p); }
  static Result<std::vector<Plan>> ranked(const Problem& p, const DeviceInfo& device) {
    return gemm::candidates(p, device);
  }
  static std::optional<Plan> recorded(const Problem& p, const DeviceInfo& device, const RecordBook& records) {
    return gemm::recorded_plan(p, device, records);
  }
  static std::optional<Plan> with_config(const Table& table, const Problem& p, const KernelConfig& config,
                                         const DeviceInfo& device, Taste) {
    PlanOverrides o;
    if (!table.numbers_by_gpc) o.numbering = Numbering::launch;
    return plan_with(p, config, device, o);
  }
  /// Returns the estimate, corrected for kernels that the planner would not pick for this m: the model was
  /// not fitted on those.
  static double us(const Plan& plan) {
    const KernelConfig& c = plan.config;
    if (is_plain(c.schedule))
      return plan.estimate.total_us *
             (1 + kPlanner.rows.row_too_many *
                      (c.tile.m - std::min(plain_rows(c.schedule, plan.problem.m), c.tile.m)));
    const bool unused = c.combine != Combine::none && plan.split.streamed == 0;
    return plan.estimate.total_us * (unused ? kPlanner.rows.unused_split : 1.0);
  }
  static std::vector<std::string> units(const Plan& plan) { return unit_texts(plan.config); }
  static bool splits(const Plan& plan) { return uses_workspace(plan.config); }
  static bool by_gpc(const Plan& plan) { return plan.split.numbering == Numbering::gpc; }
  /// Returns whether `plan` also launches the split-K reduction kernel and `than` does not. The table then
  /// keeps `plan`, so that prepare() loads both kernels.
  static bool shows_more(const Plan& plan, const Plan& than) {
    return plan.split.streamed > 0 && than.split.streamed == 0;
  }
};

struct Packed {
  using Problem = PackedProblem;
  using Plan = packed::Plan;
  using Table = packed::RowTable;

  static Result<Problem> check(const Problem& p) { return packed::check_problem(p); }
  static Result<std::vector<Plan>> ranked(const Problem& p, const DeviceInfo& device) {
    return packed::candidates(p, device);
  }
  static std::optional<Plan> recorded(const Problem& p, const DeviceInfo& device, const RecordBook& records) {
    return packed::recorded_plan(p, device, records);
  }
  static std::optional<Plan> with_config(const Table&, const Problem& p, const PackedConfig& config,
                                         const DeviceInfo& device, Taste taste) {
    return packed::plan_with(p, config, device, taste);
  }
  static double us(const Plan& plan) { return plan.estimate_us; }
  static std::vector<std::string> units(const Plan& plan) { return packed::units_of(plan); }
  static bool splits(const Plan&) { return false; }
  static bool by_gpc(const Plan&) { return false; }
  static bool shows_more(const Plan&, const Plan&) { return false; }
};

template <class P>
P of_rows(P problem, i64 m) {
  problem.m = m;
  return problem;
}

/// Returns the values of m at which kernels are estimated: all of a short range, a sample of a long one.
std::vector<i64> sampled(const RowRange& rows) {
  const SearchBounds& bounds = kPlanner.search;
  std::vector<i64> all;
  const bool dense = rows.high - rows.low < bounds.all_rows;
  for (i64 m = rows.low; m <= rows.high; ++m) {
    all.push_back(m);
    if (dense || m < bounds.few_rows) continue;
    i64 step = 1;
    while (step * 2 * bounds.octave_steps <= m) step *= 2;
    // Takes each multiple of `step`, and the m after it, where one more tile begins.
    if (m % step != 0) m = round_up(m, step) - 1;
  }
  if (all.back() != rows.high) all.push_back(rows.high);
  return all;
}

/// All places (values of m) and all candidate kernels of the choice.
template <class Kind>
struct Survey {
  struct Place {
    i64 m = 0;
    typename Kind::Problem problem{};
    double least = 0;
    std::optional<typename Kind::Plan> recorded;
    std::size_t pick = 0;  // index into `choices`
  };
  std::vector<Place> places;
  std::vector<typename Kind::Plan> choices;  // all different configs

  std::size_t index_of(const typename Kind::Plan& plan) {
    const auto found = std::find_if(choices.begin(), choices.end(),
                                    [&](const auto& choice) { return choice.config == plan.config; });
    if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
    choices.push_back(plan);
    return choices.size() - 1;
  }
};

template <class Kind>
Result<Survey<Kind>> survey_of(const typename Kind::Table& table, const DeviceInfo& device,
                               const RecordBook& records) {
  Survey<Kind> survey;
  const auto near = static_cast<std::size_t>(kPlanner.search.near_picks);
  for (const i64 m : sampled(table.rows)) {
    SLUICE_TAKE(const auto checked, Kind::check(of_rows(table.problem, m)));
    SLUICE_TAKE(const auto ranked, Kind::ranked(checked, device));
    typename Survey<Kind>::Place place{.m = m, .problem = checked, .least = Kind::us(ranked.front())};
    place.recorded = Kind::recorded(checked, device, records);
    if (place.recorded) place.least = place.recorded->measured_us;
    place.pick = survey.index_of(place.recorded ? *place.recorded : ranked.front());
    for (std::size_t i = 0; i < std::min(near, ranked.size()); ++i) survey.index_of(ranked[i]);
    survey.places.push_back(std::move(place));
  }
  return survey;
}

/// Returns per entry of `configs` the plan of that config for the problem, or nullopt. If the planner would
/// consider any of them (Taste::wanted) only those are returned, else all that are possible.
template <class Kind, class Plans>
std::vector<std::optional<typename Kind::Plan>> offers(const typename Kind::Table& table,
                                                       const typename Kind::Problem& checked,
                                                       const Plans& configs, const DeviceInfo& device) {
  std::vector<std::optional<typename Kind::Plan>> plans;
  for (const Taste taste : {Taste::wanted, Taste::possible}) {
    plans.clear();
    for (const auto& plan : configs)
      plans.push_back(Kind::with_config(table, checked, plan.config, device, taste));
    if (std::any_of(plans.begin(), plans.end(), [](const auto& plan) { return plan.has_value(); })) break;
  }
  return plans;
}

/// Scales the estimates at an m that has a tuning record, so that they compare with measured times.
/// `measured` is the record's time and `estimated` the model's time of the same plan. No other plan may look
/// better than the record.
void calibrate(double measured, double estimated, std::vector<double>& us) {
  for (double& time : us)
    if (time < kCannotServe)
      time = std::max(time * measured / estimated, measured * (1 + kPlanner.rows.record_gain));
}

template <class Kind>
CostTable costs_of(const typename Kind::Table& table, const Survey<Kind>& survey, const DeviceInfo& device) {
  CostTable costs;
  for (const auto& place : survey.places) {
    const auto plans = offers<Kind>(table, place.problem, survey.choices, device);
    std::vector<double>& us = costs.us.emplace_back();
    for (const auto& plan : plans) us.push_back(plan ? Kind::us(*plan) : kCannotServe);
    if (place.recorded) calibrate(place.least, Kind::us(*place.recorded), us);
    us[place.pick] = place.least;
    costs.least.push_back(place.least);
    costs.weights.push_back(1 + kPlanner.rows.few_rows_weight / static_cast<double>(place.m));
  }
  std::map<std::string, int> numbers;
  for (const auto& choice : survey.choices) {
    std::vector<int>& units = costs.units.emplace_back();
    for (const std::string& unit : Kind::units(choice))
      units.push_back(numbers.emplace(unit, static_cast<int>(numbers.size())).first->second);
  }
  return costs;
}

/// Returns the best plan among the table's kernels; nullopt if none can run this problem.
template <class Kind>
std::optional<typename Kind::Plan> best_of(const typename Kind::Table& table,
                                           const typename Kind::Problem& checked, const DeviceInfo& device) {
  std::optional<typename Kind::Plan> best;
  for (auto& plan : offers<Kind>(table, checked, table.kernels, device))
    if (plan && (!best || Kind::us(*plan) < Kind::us(*best))) best = std::move(plan);
  return best;
}

template <class Kind>
std::optional<typename Kind::Plan> plan_at(const typename Kind::Table& table,
                                           const typename Kind::Problem& checked, const DeviceInfo& device) {
  const auto found = std::lower_bound(table.recorded.begin(), table.recorded.end(), checked.m,
                                      [](const auto& entry, i64 m) { return entry.first < m; });
  if (found != table.recorded.end() && found->first == checked.m) return found->second;
  return best_of<Kind>(table, checked, device);
}

/// Replaces each kernel's plan by one that launches every unit the kernel needs at some m, and drops kernels
/// that serve no m. Also sets whether the plan of any m numbers its clusters by GPC.
template <class Kind>
void show_all(const Survey<Kind>& survey, const DeviceInfo& device, typename Kind::Table& table) {
  bool numbers = false;
  std::vector<bool> serves(table.kernels.size());
  for (const auto& place : survey.places) {
    const auto plan = plan_at<Kind>(table, place.problem, device);
    if (!plan) continue;
    numbers = numbers || Kind::by_gpc(*plan);
    for (std::size_t i = 0; i < serves.size(); ++i) {
      if (!(table.kernels[i].config == plan->config)) continue;
      if (!serves[i] || Kind::shows_more(*plan, table.kernels[i])) table.kernels[i] = *plan;
      serves[i] = true;
    }
  }
  for (std::size_t i = serves.size(); i-- > 0;)
    if (!serves[i]) table.kernels.erase(table.kernels.begin() + static_cast<std::ptrdiff_t>(i));
  table.numbers_by_gpc = numbers;
}

template <class Kind>
Result<void> check_range(const typename Kind::Problem& problem, RowRange rows, const DeviceInfo& device) {
  if (rows.low < 1 || rows.low > rows.high)
    return Error{ErrorCode::invalid_size, "rows = " + std::to_string(rows.low) + " to " +
                                              std::to_string(rows.high) +
                                              " must be from at least 1 to at least as many: give the least "
                                              "number of rows, then the most"};
  SLUICE_TRY(check_device(device));
  for (const i64 end : {rows.low, rows.high}) SLUICE_TRY(Kind::check(of_rows(problem, end)));
  return {};
}

/// Puts the chosen kernels into the table, and the records whose kernel was chosen.
template <class Kind>
void put_in(const FewKernels& few, const Survey<Kind>& survey, typename Kind::Table& table) {
  for (const int index : few.chosen) table.kernels.push_back(survey.choices[index]);
  for (const auto& place : survey.places)
    if (place.recorded &&
        std::binary_search(few.chosen.begin(), few.chosen.end(), static_cast<int>(place.pick)))
      table.recorded.emplace_back(place.m, *place.recorded);
}

/// Returns the number of different units of the plans.
template <class Kind, class Plans>
int count_units(const Plans& plans) {
  std::set<std::string> units;
  for (const auto& plan : plans)
    for (std::string& unit : Kind::units(plan)) units.insert(std::move(unit));
  return static_cast<int>(units.size());
}

template <class Kind>
Result<typename Kind::Table> choose(const typename Kind::Problem& problem, RowRange rows,
                                    const DeviceInfo& device, const RecordBook& records) {
  SLUICE_TRY(check_range<Kind>(problem, rows, device));
  typename Kind::Table table{.problem = of_rows(problem, rows.low), .rows = rows, .numbers_by_gpc = true};
  SLUICE_TAKE(const Survey<Kind> survey, survey_of<Kind>(table, device, records));
  const FewKernels few = choose_few(costs_of(table, survey, device), kMostRowKernels);
  if (few.chosen.empty())
    return Error{ErrorCode::internal, "no " + std::to_string(kMostRowKernels) +
                                          " kernels serve all rows from " + std::to_string(rows.low) +
                                          " to " + std::to_string(rows.high) +
                                          ": prepare a shorter range, and report this"};
  put_in(few, survey, table);
  show_all(survey, device, table);
  std::vector<typename Kind::Plan> alone;
  for (const auto& place : survey.places) alone.push_back(survey.choices[place.pick]);
  table.summary = {.kernels = count_units<Kind>(table.kernels),
                   .numbers = static_cast<int>(survey.places.size()),
                   .unbounded = count_units<Kind>(alone),
                   .mean_loss = few.mean_loss,
                   .worst_loss = few.worst_loss,
                   .worst_m = survey.places[few.worst_place].m,
                   .splits = std::any_of(table.kernels.begin(), table.kernels.end(), Kind::splits)};
  return table;
}

template <class Kind>
Result<typename Kind::Plan> plan_of_table(const typename Kind::Table& table, i64 m,
                                          const DeviceInfo& device) {
  if (m < table.rows.low || m > table.rows.high)
    return Error{ErrorCode::invalid_size,
                 "m = " + std::to_string(m) + " must be in the range that was prepared, " +
                     std::to_string(table.rows.low) + " to " + std::to_string(table.rows.high) +
                     ": prepare a longer one, or plan this problem alone"};
  SLUICE_TAKE(const auto checked, Kind::check(of_rows(table.problem, m)));
  if (auto plan = plan_at<Kind>(table, checked, device)) return *std::move(plan);
  return Error{ErrorCode::invalid_config,
               "none of the range's kernels is for m = " + std::to_string(m) + ": plan this problem alone"};
}

}  // namespace

namespace gemm {

Result<RowTable> plan_rows(const Problem& problem, RowRange rows, const DeviceInfo& device,
                           const RecordBook& records) {
  return choose<Dense>(problem, rows, device, records);
}

Result<Plan> plan(const RowTable& table, i64 m, const DeviceInfo& device) {
  return plan_of_table<Dense>(table, m, device);
}

}  // namespace gemm

namespace packed {

Result<RowTable> plan_rows(const PackedProblem& problem, RowRange rows, const DeviceInfo& device,
                           const RecordBook& records) {
  return choose<Packed>(problem, rows, device, records);
}

Result<Plan> plan(const RowTable& table, i64 m, const DeviceInfo& device) {
  return plan_of_table<Packed>(table, m, device);
}

}  // namespace packed
}  // namespace sluice
