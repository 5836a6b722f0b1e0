// SPDX-License-Identifier: Apache-2.0
// Turns results into records; nothing is measured here.
#include "bench/tune/report.h"

#include <fmt/format.h>

#include <algorithm>

#include <sluice/plan/dense/tuned_choice.h>
#include <sluice/quantiles.h>

#include "bench/shapes.h"

namespace sluice::bench {
namespace {

std::string trouble_of(const Trial& trial) {
  if (trial.state == TrialState::failed || trial.state == TrialState::wrong) return trial.message;
  return trial.state == TrialState::right && trial.screened.empty() ? "not timed: no time was left" : "";
}

ContenderRecord contender_of(const Trial& trial, const char* name) {
  return {.name = name,
          .detail = short_name(trial.plan.config),
          .us = quantiles_of(trial.timed),
          .rounds = trial.timed,
          .verified = trial.state == TrialState::right,
          .error = trial.state == TrialState::failed ? trial.message
                   : trial.timed.empty()             ? "not timed"
                                                     : ""};
}

}  // namespace

std::string method_text(const Method& method) {
  return fmt::format("{}, {} rounds of {:.1f} ms, {:.0f} ms rest", method.cold ? "cold" : "warm",
                     method.rounds, method.replay_us / 1000, method.rest_ms);
}

TuningRecord record_of(const TuneResult& result, const TuneOrigin& origin) {
  const Trial& best = result.trials[static_cast<size_t>(result.best)];
  const DeviceInfo& device = origin.device;
  return {.key = key_of(result.problem, device),
          .choice = choice_of(best.plan, result.best_us()),
          .estimate_us = best.plan.estimate.total_us,
          .model_us = result.pick_us(),
          .sluice = library_version(),
          .driver = origin.driver.empty() ? "unknown" : origin.driver,
          .date = origin.date,
          .method = fmt::format("{}; {} of them done, best of {}", origin.method, best.timed.size(),
                                result.count(TrialState::right))};
}

ShapeRecord shape_record_of(const TuneResult& result) {
  ShapeRecord shape{.problem = result.problem};
  shape.copies = result.copies;
  shape.telemetry = result.telemetry;
  shape.wall_s = result.seconds;
  shape.error = result.message;
  if (result.state == TuneState::no_time) shape.error = "no time was left";
  if (result.state == TuneState::known) shape.error = "has a record already";
  shape.ranked = result.ranked;
  shape.possible = result.possible;
  if (result.trials.empty()) return shape;
  const auto add = [&](int trial, const char* name) {
    if (trial < 0) return;
    shape.contenders.push_back(contender_of(result.trials[static_cast<size_t>(trial)], name));
  };
  add(0, kSluice);
  add(result.best, kSluiceTuned);
  add(result.recorded, kSluiceRecorded);
  for (const Trial& trial : result.trials) {
    if (trial.state == TrialState::untried) continue;
    shape.candidates.push_back({.name = short_name(trial.plan.config),
                                .config = config_text(trial.plan),
                                .split = split_text(trial.plan),
                                .estimate = trial.plan.estimate,
                                .us = quantiles_of(trial.screened).median,
                                .verified = trial.state == TrialState::right,
                                .error = trouble_of(trial),
                                .plan = trial.plan});
  }
  return shape;
}

TuneSummary summarise(const std::vector<TuneResult>& results) {
  TuneSummary s;
  std::vector<double> gains, record_gains;
  for (const TuneResult& result : results) {
    s.tuned += result.state == TuneState::tuned;
    s.known += result.state == TuneState::known;
    s.no_time += result.state == TuneState::no_time;
    s.failed += result.state == TuneState::failed;
    s.wrong_kernels += result.count(TrialState::wrong);
    s.failed_kernels += result.count(TrialState::failed);
    if (result.state == TuneState::tuned && result.recorded_us() > 0)
      record_gains.push_back(result.recorded_us() / result.best_us());
    if (result.state != TuneState::tuned || result.pick_us() <= 0) continue;
    gains.push_back(result.gain());
    s.within_noise += result.gain() < 1 + kTuneNoise;
    if (result.gain() > s.worst_gain) {
      s.worst_gain = result.gain();
      s.worst = name_of(result.problem);
    }
  }
  if (!gains.empty()) s.mean_gain = geometric_mean(gains);
  s.recorded = static_cast<int>(record_gains.size());
  if (s.recorded > 0) s.mean_record_gain = geometric_mean(record_gains);
  return s;
}

}  // namespace sluice::bench
