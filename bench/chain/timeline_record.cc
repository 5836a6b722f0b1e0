// SPDX-License-Identifier: Apache-2.0
// Each step is one line: thousands of numbers on a line each would not make diffs more readable.
#include "bench/chain/timeline_record.h"

#include "bench/chain/record.h"
#include "bench/json.h"

namespace sluice::bench {
namespace {

double hundredths(double value) {
  return std::round(value * 100) / 100;
}

Json step_json(const StepTimes& step) {
  Json json{{"name", step.name}, {"weight_bytes", step.weight_bytes}, {"took_us", hundredths(step.took_us)}};
  for (const auto& [moment, range] : step.since)
    json["since"][name_of(moment)] = {hundredths(range.least), hundredths(range.median),
                                      hundredths(range.most)};
  json["ctas"] = Json::array();
  for (const CtaTimes& cta : step.one_layer.ctas) {
    Json row{cta.sm};
    for (const i64 time : cta.at) row.push_back(time == kNever ? Json() : Json(time));
    json["ctas"].push_back(std::move(row));
  }
  return json;
}

std::string arm_text(const ChainRecord& chain, const ArmRecord& arm) {
  const Timeline& t = *arm.timeline;
  Json moments = Json::array();
  for (int i = 0; i < kTimes; ++i) moments.push_back(name_of(static_cast<Moment>(i)));
  Json json{{"chain", name_of(chain.spec)},
            {"arm", arm.name},
            {"us_a_layer", hundredths(arm.us.median)},
            {"mean_layer_us", hundredths(t.mean_layer_us)},
            {"layer_us", hundredths(t.layer_us)},
            {"layer", t.layer},
            {"tick_ns", t.tick_ns},
            {"moments", std::move(moments)},
            {"plan", arm.text}};
  std::string text = json.dump();
  text.back() = ',';
  text += "\n \"steps\": [";
  for (size_t i = 0; i < t.steps.size(); ++i)
    text += (i > 0 ? ",\n  " : "\n  ") + step_json(t.steps[i]).dump();
  return text + "]}";
}

}  // namespace

std::string timelines_json(const RunRecord& run, const std::vector<ChainRecord>& chains) {
  Json json = run_json(run, "sluice-timeline-1");
  json["peak_tbps"] = rounded(chain_peak_bytes_per_us(run.device) * 1e-6);
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.back() = ',';
  text += "\n\"timelines\": [";
  bool first = true;
  for (const ChainRecord& chain : chains)
    for (const ArmRecord& arm : chain.arms) {
      if (!arm.timeline) continue;
      text += (first ? "\n" : ",\n") + arm_text(chain, arm);
      first = false;
    }
  return text + "]}\n";
}

}  // namespace sluice::bench
