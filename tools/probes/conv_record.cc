// SPDX-License-Identifier: Apache-2.0
// Records of the probe as JSON and as lines.
#include <fmt/format.h>

#include <algorithm>

#include "tools/probes/conv_lines.h"
#include "tools/probes/conv_race.h"

namespace sluice::probes {
namespace {

using bench::Json;

const char* name_of(Timed timed) {
  switch (timed) {
    case Timed::no: return "no";
    case Timed::probe: return "one warm launch";
    case Timed::screen: return "screened";
    case Timed::final: return "final";
  }
  return "?";
}

/// Numbers far below 1 keep their digits.
double significant(double value) {
  return std::stod(fmt::format("{:.3g}", value));
}

Json timed_json(const PlanRecord* plan) {
  if (plan == nullptr) return nullptr;
  return {{"us", bench::rounded(plan->us.median)},
          {"plan", plan->plan.tag},
          {"origin", plan->plan.origin},
          {"timed", name_of(plan->timed)}};
}

Json plan_json(const PlanRecord& plan) {
  Json json = {{"plan", plan.plan.tag},
               {"engine", plan.plan.engine},
               {"origin", plan.plan.origin},
               {"workspace", plan.plan.workspace_bytes},
               {"deterministic", plan.plan.deterministic()},
               {"notes", plan.plan.notes()}};
  if (!plan.error.empty()) json["error"] = plan.error;
  if (plan.timed == Timed::no) return json;
  json["timed"] = name_of(plan.timed);
  json["us"] = bench::spread_json(plan.us);
  if (plan.sm_mhz > 0) json["sm_mhz"] = bench::rounded(plan.sm_mhz);
  json["difference"] = {{"relative", significant(plan.difference.relative)},
                        {"largest", significant(plan.difference.largest)},
                        {"not_finite", plan.difference.not_finite}};
  if (plan.wrong) json["wrong"] = true;
  return json;
}

double worst_difference(const ConvRecord& record) {
  double worst = 0;
  for (const PlanRecord& plan : record.plans) worst = std::max(worst, plan.difference.relative);
  return worst;
}

template <class Is>
int count_of(const ConvRecord& record, const Is& is) {
  return static_cast<int>(std::count_if(record.plans.begin(), record.plans.end(), is));
}

double gigaflops(const ConvRecord& record) {
  return 2e-9 * multiplications(record.problem.conv);
}

}  // namespace

Json conv_json(const ConvRecord& record) {
  Json json = {{"name", short_name(record.problem)},
               {"flags", flags_of(record.problem)},
               {"gflop", bench::rounded(gigaflops(record))},
               {"set_mb", bench::rounded(record.set_mb)},
               {"copies", record.copies},
               {"plans", record.plans.size()},
               {"first", timed_json(record.first())},
               {"best", timed_json(record.best())},
               {"best_deterministic", timed_json(record.best_deterministic())},
               {"failed", count_of(record, [](const PlanRecord& plan) { return !plan.error.empty(); })},
               {"wrong", count_of(record, [](const PlanRecord& plan) { return plan.wrong; })},
               {"worst_difference", significant(worst_difference(record))},
               {"samples",
                {{"count", record.samples},
                 {"worst_error", significant(record.sample_error)},
                 {"wrong", record.samples_wrong}}},
               {"engines", record.engines},
               {"engines_refused", record.engines_refused},
               {"build_s", bench::rounded(record.build_s)},
               {"wall_s", bench::rounded(record.wall_s)}};
  if (record.telemetry.samples > 0)
    json["telemetry"] = {{"sm_mhz_median", record.telemetry.sm_mhz_median},
                         {"power_w_mean", bench::rounded(record.telemetry.power_w_mean)},
                         {"power_w_max", record.telemetry.power_w_max},
                         {"celsius_max", record.telemetry.celsius_max}};
  if (!record.error.empty()) json["error"] = record.error;
  json["all"] = bench::array_of(record.plans, plan_json);
  json["refused"] = bench::array_of(record.refused, [](const bench::CudnnRefusal& refusal) {
    return Json{{"plan", refusal.tag}, {"origin", refusal.origin}, {"why", refusal.why}};
  });
  return json;
}

std::string conv_line(const ConvRecord& record) {
  std::string line = fmt::format("{:<52} {:>3} plans", short_name(record.problem), record.plans.size());
  const PlanRecord* best = record.best();
  if (best != nullptr) {
    const PlanRecord* deterministic = record.best_deterministic();
    line +=
        fmt::format("  first {:8.2f}  best {:8.2f}  deterministic {:>8} us  {:4.0f} TFLOP/s  apart {:.1e}",
                    record.first()->us.median, best->us.median,
                    deterministic != nullptr ? fmt::format("{:.2f}", deterministic->us.median) : "none",
                    1e3 * gigaflops(record) / best->us.median, worst_difference(record));
    line += fmt::format("  ({}; {:.1f} s)", best->plan.tag, record.wall_s);
  }
  const int failed = count_of(record, [](const PlanRecord& plan) { return !plan.error.empty(); });
  const int wrong = count_of(record, [](const PlanRecord& plan) { return plan.wrong; });
  if (failed > 0) line += fmt::format("  {} failed", failed);
  if (wrong > 0) line += fmt::format("  {} DISAGREE", wrong);
  if (record.samples_wrong) line += fmt::format("  SAMPLES ARE WRONG by {:.1e}", record.sample_error);
  if (!record.error.empty()) line += "  error: " + record.error;
  return line;
}

}  // namespace sluice::probes
