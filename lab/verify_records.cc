// SPDX-License-Identifier: Apache-2.0
// Uses the tuner's machine, which makes one set of operands per problem.
#include "lab/verify_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include <sluice/messages/errors.h>
#include <sluice/plan/records/record_book.h>
#include <sluice/text.h>
#include <sluice/try.h>

#include "bench/shapes.h"
#include "bench/tune/gpu.h"
#include "cli/command_line.h"
#include "cli/exit_code.h"
#include "cli/terminal.h"
#include "cli/watchdog.h"
#include "lab/recorded_plans.h"

namespace sluice::lab {

using namespace cli;  // flags, tables, progress
namespace {

constexpr size_t kPreparedAtOnce = 64;

/// Result of checking the kernel of one record.
struct Outcome {
  std::string name, kernel, why;  // why: "" if the result is right
  Comparison found;
  double seconds = 0;

  bool not_judged() const { return found.verdict() == Verdict::not_judged; }  // neither right nor wrong
  bool right() const { return why.empty(); }
  bool wrong() const { return !right() && !not_judged(); }
};

/// Maximum of each error ratio (error / bound) over the kernels that are right.
Comparison largest_shares(const std::vector<Outcome>& outcomes) {
  Comparison most;
  for (const Outcome& outcome : outcomes) {
    if (!outcome.why.empty()) continue;
    most.checked += outcome.found.checked;
    most.worst_ratio = std::max(most.worst_ratio, outcome.found.worst_ratio);
    most.norm_ratio = std::max(most.norm_ratio, outcome.found.norm_ratio);
    most.mean_ratio = std::max(most.mean_ratio, outcome.found.mean_ratio);
  }
  return most;
}

class Session {
 public:
  Session(const VerifyRecordsFlags& flags, const bench::Lab& lab) : flags_(flags), lab_(lab), machine_(lab) {}

  Result<int> run(const RecordedPlans& recorded, const std::vector<RecordedPlan>& plans) {
    const double start = machine_.now_s();
    Progress bar("verify");
    Watchdog watchdog(flags_.hang_s);
    const int total = static_cast<int>(plans.size());
    for (size_t i = 0; i < plans.size(); ++i) {
      if (i % kPreparedAtOnce == 0)
        compile(std::span(plans).subspan(i, std::min(kPreparedAtOnce, plans.size() - i)), watchdog);
      const RecordedPlan& item = plans[i];
      bar.update(static_cast<int>(i), total, item.name);
      watchdog.step(fmt::format("{}: {}", item.name, short_name(item.plan.config)));
      const double begin = machine_.now_s();
      const Result<Comparison> found = check(item.plan);
      const Result<std::string> why = bench::verdict_on(found, false);
      outcomes_.push_back({item.name, bench::config_text(item.plan), why ? *why : why.error().message,
                           found ? *found : Comparison{}, machine_.now_s() - begin});
      if (!outcomes_.back().why.empty()) {
        bar.clear();
        const Outcome& last = outcomes_.back();
        fmt::print("{}: {}\n  {}\n  {}\n", last.wrong() ? paint(stdout, Colour::red, "wrong") : "not judged",
                   item.name, last.kernel, last.why);
        SLUICE_TRY(machine_.alive());
      }
    }
    bar.clear();
    const i64 wrong = count_if(&Outcome::wrong), is_right = count_if(&Outcome::right);
    const double seconds = machine_.now_s() - start;
    const bool right = wrong == 0 && is_right > 0;
    for (const std::string& line : recorded.passed_over) fmt::print("passed over: {}\n", line);
    fmt::print("{} on {} in {:.0f} s: {}\n", counted(outcomes_.size(), "record"), lab_.device.info().name,
               seconds,
               paint(stdout, right ? Colour::green : Colour::red,
                     fmt::format("{} right, {} wrong, {} not judged, {} passed over", is_right, wrong,
                                 count_if(&Outcome::not_judged), recorded.passed_over.size())));
    fmt::print("of those that are right: {}\n", describe(largest_shares(outcomes_)));
    if (!flags_.json.empty()) SLUICE_TRY(bench::write_whole(json(recorded, seconds), flags_.json));
    return right ? kExitOk : kExitNo;
  }

 private:
  i64 count_if(bool (Outcome::*is)() const) const {
    return std::count_if(outcomes_.begin(), outcomes_.end(), std::mem_fn(is));
  }

  /// Compiles all plans in parallel. If one fails, its error is reported when its turn to be checked comes.
  void compile(std::span<const RecordedPlan> plans, Watchdog& watchdog) {
    watchdog.step(fmt::format("compiling {}", counted(plans.size(), "kernel")));
    std::vector<Plan> all;
    for (const RecordedPlan& item : plans) all.push_back(item.plan);
    static_cast<void>(gemm::prepare(lab_.device, all));
  }

  Result<Comparison> check(const Plan& plan) {
    SLUICE_TRY(machine_.open(plan.problem));
    const std::vector<Result<int>> prepared = machine_.prepare(std::span(&plan, 1));
    if (!prepared[0]) return prepared[0].error();
    return machine_.compare(*prepared[0]);
  }

  std::string json(const RecordedPlans& recorded, double seconds) const {
    using Json = nlohmann::ordered_json;
    const bench::RunRecord run = bench::describe_run(lab_);
    Json wrong = Json::array(), not_judged = Json::array();
    for (const Outcome& outcome : outcomes_)
      if (outcome.not_judged()) not_judged.push_back(outcome.name + ": " + outcome.why);
    for (const Outcome& outcome : outcomes_)
      if (outcome.wrong())
        wrong.push_back({{"problem", outcome.name}, {"config", outcome.kernel}, {"why", outcome.why}});
    Json records = Json::array();
    for (const Outcome& outcome : outcomes_)
      records.push_back({{"problem", outcome.name},
                         {"right", outcome.right()},
                         {"elements", outcome.found.checked},
                         {"element_share", outcome.found.worst_ratio},
                         {"norm_share", outcome.found.norm_ratio},
                         {"mean_share", outcome.found.mean_ratio},
                         {"seconds", outcome.seconds}});
    const Json all = {{"schema", "sluice-verify-records-1"},
                      {"command", command_line()},
                      {"commit", flags_.commit.empty() ? built_commit() : flags_.commit},
                      {"started", run.started},
                      {"gpu", run.gpu},
                      {"driver", run.driver},
                      {"nvrtc", run.nvrtc},
                      {"checked", outcomes_.size()},
                      {"right", count_if(&Outcome::right)},
                      {"not_judged", not_judged},
                      {"passed_over", recorded.passed_over},
                      {"seconds", seconds},
                      {"wrong", wrong},
                      {"records", records}};
    return all.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
  }

  const VerifyRecordsFlags& flags_;
  const bench::Lab& lab_;
  bench::GpuTuneMachine machine_;
  std::vector<Outcome> outcomes_;
};

}  // namespace

Result<int> verify_records(const VerifyRecordsFlags& flags, const Device& device) {
  RecordedPlans recorded = recorded_plans(embedded_records(), device.info());
  std::vector<RecordedPlan> plans = recorded.plans;
  std::erase_if(plans, [&](const auto& item) { return item.name.find(flags.only) == std::string::npos; });
  if (plans.empty() && recorded.passed_over.empty())
    return bad_argument("no record has {} in its problem's name: give a part of one", in_quotes(flags.only));
  SLUICE_TAKE(const auto lab,
              bench::open_lab(device, {.method = {.cold = false, .peer = false, .seed = flags.seed}}));
  return Session(flags, *lab).run(recorded, plans);
}

}  // namespace sluice::lab
