// SPDX-License-Identifier: Apache-2.0
#include "lab/rows/record.h"

#include <algorithm>

#include "bench/json.h"

namespace sluice::lab {
namespace {

double share(double value) {
  return std::round(value * 1e5) / 1e5;
}

Json times_json(const Quantiles& us, const std::vector<double>& rounds) {
  Json json = spread_json(us);
  json["rounds"] = rounds_json(rounds);
  return json;
}

Json point_json(const RowPoint& p) {
  Json json{{"m", p.m}, {"drawn", p.drawn}, {"alone", p.alone}, {"range", p.few}, {"same", p.same}};
  if (!p.error.empty()) {
    json["error"] = p.error;
    return json;
  }
  json["loss"] = share(p.loss());
  if (p.same) return json;
  json["alone_us"] = times_json(p.alone_us, p.alone_rounds);
  json["range_us"] = times_json(p.few_us, p.few_rounds);
  json["verified"] = p.verified;
  return json;
}

Json layer_json(const RowsRecord& layer) {
  if (!layer.error.empty()) return {{"name", layer.name}, {"error", layer.error}};
  const RowsModel& model = layer.model;
  const FirstCalls& f = layer.first_calls;
  Json json{
      {"name", layer.name},
      {"kernels", layer.summary.kernels},
      {"kernels_alone", model.kernels_alone},
      {"model",
       {{"mean_loss", share(model.mean_loss)},
        {"worst_loss", share(model.worst_loss)},
        {"worst_m", model.worst_m}}},
      {"measured", {{"mean_loss", share(layer.mean_loss())}, {"worst_loss", share(layer.worst_loss())}}},
      {"prepare_s", rounded(layer.prepare_s)},
      {"first_calls",
       {{"calls", f.calls},
        {"kernels_made", f.kernels_made},
        {"median_us", rounded(f.median_us)},
        {"worst_us", rounded(f.worst_us)},
        {"worst_m", f.worst_m}}}};
  if (!f.error.empty()) json["first_calls"]["error"] = f.error;
  json["points"] = array_of(layer.points, point_json);
  return json;
}

}  // namespace

RowsSummary summarise(std::span<const RowsRecord> layers) {
  RowsSummary sum;
  int drawn = 0;
  for (const RowsRecord& layer : layers) {
    ++sum.layers;
    sum.all_right = sum.all_right && layer.all_right();
    sum.most_kernels = std::max(sum.most_kernels, layer.summary.kernels);
    sum.worst_call_us = std::max(sum.worst_call_us, layer.first_calls.worst_us);
    sum.worst_loss = std::max(sum.worst_loss, layer.worst_loss());
    for (const RowPoint& point : layer.points) {
      ++sum.points;
      if (!point.error.empty()) continue;
      sum.timed += point.same ? 0 : 1;
      if (point.drawn) sum.mean_loss += point.loss(), ++drawn;
    }
  }
  if (drawn > 0) sum.mean_loss /= drawn;
  return sum;
}

std::string to_json(const RunRecord& run, const RowsMethod& method, std::span<const RowsRecord> layers) {
  Json json = run_json(run, "sluice-rows-1");
  json["rows"] = {{"low", method.rows.low},
                  {"high", method.rows.high},
                  {"numbers", method.numbers},
                  {"seed", method.seed}};
  const RowsSummary sum = summarise(layers);
  json["summary"] = {{"layers", sum.layers},
                     {"points", sum.points},
                     {"timed", sum.timed},
                     {"mean_loss", share(sum.mean_loss)},
                     {"worst_loss", share(sum.worst_loss)},
                     {"most_kernels", sum.most_kernels},
                     {"worst_call_us", rounded(sum.worst_call_us)},
                     {"all_right", sum.all_right}};
  json["layers"] = array_of(layers, layer_json);
  return json_text(json, 2);
}

}  // namespace sluice::lab
