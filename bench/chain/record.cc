// SPDX-License-Identifier: Apache-2.0
#include "bench/chain/layers.h"
#include "bench/json.h"

namespace sluice::bench {
namespace {

Json search_json(const ChainSearch& found) {
  Json json{{"tried", found.tried}, {"kept", found.kept}};
  json["axes"] = array_of(found.axes, [](const ChainSearch::Axis& axis) {
    return Json{
        {"axis", axis.name}, {"tried", axis.tried}, {"kept", axis.kept}, {"gain", rounded(axis.gain)}};
  });
  if (found.refused > 0) json["refused"] = {{"changes", found.refused}, {"first", found.why_refused}};
  return json;
}

Json arm_json(const ChainRecord& record, const ArmRecord& arm) {
  Json json{{"name", arm.name}, {"detail", arm.detail}};
  if (!arm.error.empty()) json["error"] = arm.error;
  json["distance"] = arm.distance;
  if (arm.name != kChainPeer) {
    json["kernels"] = arm.kernels;
    json["programmatic_edges"] = arm.programmatic_edges;
    json["differing"] = arm.differing;
  }
  if (arm.replays > 0) json["replays"] = arm.replays;
  if (arm.search) json["tuning"] = search_json(*arm.search);
  if (arm.us.median <= 0) return json;
  json["us_a_layer"] = spread_json(arm.us);
  json["share"] = rounded(share_of_peak(record, arm.us.median));
  for (const char* other : {kChainPeer, kChainOff})
    if (const double us = median_of(record, other); us > 0 && arm.name != other)
      json["ratios"][other] = rounded(us / arm.us.median);
  json["rounds"] = rounds_json(arm.rounds);
  if (!arm.text.empty()) json["plan"] = arm.text;
  return json;
}

Json chain_json(const ChainRecord& record) {
  const LayerSpec& s = record.spec;
  Json json{{"name", name_of(s)},
            {"model", s.model.name},
            {"weights", name_of(s.weights)},
            {"activations", name_of(token_type(s))},
            {"tokens", s.tokens},
            {"accumulate", s.weights == LayerWeights::e4m3 ? Json(name_of(s.accumulate)) : Json(nullptr)},
            {"layers", s.layers},
            {"passes", s.passes},
            {"projections", s.parts == LayerParts::projections},
            {"weight_bytes_a_layer", record.layer_weight_bytes}};
  if (!record.error.empty()) json["error"] = record.error;
  const TelemetrySummary& t = record.telemetry;
  if (t.samples > 0)
    json["telemetry"] = {{"samples", t.samples},
                         {"sm_mhz_median", rounded(t.sm_mhz_median)},
                         {"sm_mhz_min", rounded(t.sm_mhz_min)},
                         {"power_w_mean", rounded(t.power_w_mean)}};
  json["wall_s"] = rounded(record.wall_s);
  json["arms"] = array_of(record.arms, [&](const ArmRecord& arm) { return arm_json(record, arm); });
  return json;
}

}  // namespace

double share_of_peak(const ChainRecord& record, double us) {
  return us > 0 ? static_cast<double>(record.layer_weight_bytes) / us / record.peak_bytes_per_us : 0;
}

std::string to_json(const RunRecord& run, const std::vector<ChainRecord>& chains) {
  Json json = run_json(run, "sluice-chain-1");
  json["peak_tbps"] = rounded(chain_peak_bytes_per_us(run.device) * 1e-6);
  json["chains"] = array_of(chains, chain_json);
  return json_text(json);
}

Result<void> write_json(const RunRecord& run, const std::vector<ChainRecord>& chains,
                        const std::string& path) {
  return write_whole(to_json(run, chains), path);
}

}  // namespace sluice::bench
