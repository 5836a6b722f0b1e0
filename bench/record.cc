// SPDX-License-Identifier: Apache-2.0
#include <sluice/bench/record.h>

#include <fmt/format.h>

#include <algorithm>

#include <sluice/spec/conv_problem.h>

#include "bench/json.h"

namespace sluice::bench {
namespace {

const ContenderRecord* find(const ShapeRecord& shape, const std::string& name) {
  for (const ContenderRecord& contender : shape.contenders)
    if (contender.name == name) return &contender;
  return nullptr;
}

/// Returns the median of a verified contender. Returns 0 for a wrong or unchecked kernel, which must not
/// enter a ratio.
double verified_median(const ShapeRecord& shape, const std::string& contender) {
  if (contender == kBestFp8) {
    const double peer = verified_median(shape, kFp8PeerBest), ours = verified_median(shape, kSluiceFp8);
    return peer > 0 && ours > 0 ? std::min(peer, ours) : std::max(peer, ours);
  }
  const ContenderRecord* found = find(shape, contender);
  const double us = found != nullptr && found->verified ? median_of(shape, contender) : 0;
  // kPeerBest was selected in a short screening. In the final race, the heuristic's first algorithm may be
  // faster.
  const auto or_faster = [&](double best, const char* other) {
    const double other_us = verified_median(shape, other);
    return best > 0 && other_us > 0 ? std::min(best, other_us) : std::max(best, other_us);
  };
  if (contender == kPeerBest && us > 0) return or_faster(us, kPeerFirst);
  if (contender == kCudnnBest) return or_faster(or_faster(us, kCudnnFirst), kCudnnDeterministic);
  return us;
}

Json rates_json(const RunRecord& run, const ShapeRecord& shape, const ContenderRecord& c) {
  const double us = c.us.median;
  if (us <= 0) return nullptr;
  const double tflops = flops_of(shape.problem) / us * 1e-6, peak = peak_tflops(run, shape.problem);
  return {{"tflops", rounded(tflops)},
          {"gbps", rounded((c.bytes > 0 ? c.bytes : bytes_of_traffic(shape.problem)) / us * 1e-3)},
          {"peak_share", peak > 0 ? Json(rounded(tflops / peak)) : Json(nullptr)}};
}

Json contender_json(const RunRecord& run, const ShapeRecord& shape, const ContenderRecord& c) {
  Json json{{"name", c.name}, {"detail", c.detail}};
  if (!c.error.empty()) {
    json["error"] = c.error;
    return json;
  }
  json["us"] = spread_json(c.us);
  json["rates"] = rates_json(run, shape, c);
  json["launches"] = c.launches;
  json["rounds"] = rounds_json(c.rounds);
  if (c.sm_mhz > 0) json["sm_mhz"] = rounded(c.sm_mhz);
  if (c.host_us > 0) json["host_us"] = rounded(c.host_us);
  json["verified"] = c.verified;
  if (!c.verdict.empty()) json["verdict"] = c.verdict;
  return json;
}

/// The fields of a plan that differ between candidates. `splits` is the number of slices of a split tile.
Json choice_json(const Plan& plan) {
  const KernelConfig& c = plan.config;
  const WorkSplit& split = plan.split;
  return {{"schedule", name_of(c.schedule)},
          {"tile", {c.tile.m, c.tile.n, c.tile.k}},
          {"stages", c.stages},
          {"cluster", {c.cluster.m, c.cluster.n, c.cluster.k}},
          {"combine", name_of(c.combine)},
          {"clusters", split.clusters},
          {"splits", split.slices},
          {"workspace_bytes", plan.workspace_bytes}};
}

Json candidate_json(const CandidateRecord& c) {
  Json json{{"name", c.name},
            {"us", rounded(c.us)},
            {"estimate",
             {{"total_us", rounded(c.estimate.total_us)},
              {"tensor_us", rounded(c.estimate.tensor_us)},
              {"l2_us", rounded(c.estimate.l2_us)},
              {"hbm_us", rounded(c.estimate.hbm_us)},
              {"overhead_us", rounded(c.estimate.overhead_us)},
              {"waves", c.estimate.waves}}},
            {"verified", c.verified},
            {"config", c.config},
            {"split", c.split}};
  if (!is_packed(c.plan.problem)) json["choice"] = choice_json(c.plan);
  if (!c.error.empty()) json["error"] = c.error;
  return json;
}

Json problem_json(const Problem& p) {
  Json json{{"m", p.m},
            {"n", p.n},
            {"k", p.k},
            {"batch", p.batch},
            {"a", name_of(p.a.type)},
            {"b", name_of(p.b.type)},
            {"d", name_of(p.d.type)},
            {"a_layout", name_of(p.a.major)},
            {"b_layout", name_of(p.b.major)},
            {"accumulate", name_of(is_promoted(p) ? Accumulate::promoted : Accumulate::fast)},
            {"scale_a", name_of(p.epilogue.scale_a)},
            {"scale_b", name_of(p.epilogue.scale_b)},
            {"bias", p.epilogue.bias != Bias::none},
            {"activation", name_of(p.epilogue.activation)},
            {"residual", p.epilogue.residual}};
  if (adds(p.epilogue)) json["update"] = name_of(p.epilogue.update);
  if (p.epilogue.gated) json["gated"] = true;
  if (p.epilogue.scale_d != ScaleMode::none) json["scale_d"] = name_of(p.epilogue.scale_d);
  if (!p.deterministic) json["deterministic"] = false;
  return json;
}

/// Lists the axes outermost first, as torch and the command line do.
Json axes_json(const Conv& v, const Axes& axes) {
  Json json = Json::array();
  for (int axis = v.spatial - 1; axis >= 0; --axis) json.push_back(axes[axis]);
  return json;
}
Json conv_json(const Conv& v) {
  return {{"op", name_of(v.op)},
          {"images", v.images},
          {"channels", v.channels},
          {"filters", v.filters},
          {"size", axes_json(v, v.size)},
          {"filter", axes_json(v, v.filter)},
          {"stride", axes_json(v, v.stride)},
          {"padding", axes_json(v, v.padding)},
          {"padding_after", axes_json(v, v.padding_after)},
          {"dilation", axes_json(v, v.dilation)},
          {"x_pitch", v.x_pitch},
          {"y_pitch", v.y_pitch},
          {"pointwise", is_pointwise(v)}};
}

Json packed_json(const Problem& p) {
  return {{"m", p.m},
          {"n", p.n},
          {"k", p.k},
          {"x", name_of(p.a.type)},
          {"scale_x", name_of(p.epilogue.scale_a)},
          {"d", name_of(p.d.type)},
          {"weights", name_of(p.b.packed.type)},
          {"group", p.b.packed.group},
          {"weight_scale", name_of(p.b.packed.scale)},
          {"zero", name_of(p.b.packed.zero)},
          {"weight_bytes", static_cast<double>(blob_bytes(p))},
          {"bias", p.epilogue.bias != Bias::none},
          {"activation", name_of(p.epilogue.activation)}};
}

/// Names of the contenders that sluice is compared with.
std::vector<const char*> peers_of(const ShapeRecord& shape) {
  if (is_packed(shape.problem)) return {kBestFp8, kHalfPeerBest, kReadFloor};
  if (is_conv(shape.problem.conv)) return {kCudnnBest, kCudnnFirst, kCudnnDeterministic};
  return {kPeerBest, kPeerFirst};
}

Json telemetry_json(const TelemetrySummary& t) {
  if (t.samples == 0) return nullptr;
  return {{"samples", t.samples},
          {"sm_mhz", {{"median", rounded(t.sm_mhz_median)}, {"min", rounded(t.sm_mhz_min)}}},
          {"power_w", {{"mean", rounded(t.power_w_mean)}, {"max", rounded(t.power_w_max)}}},
          {"celsius_max", rounded(t.celsius_max)}};
}

Json ratios_json(const ShapeRecord& shape) {
  Json json = Json::object();
  for (const char* ours : {kSluice, kSluiceRaced, kSluiceTuned})
    for (const char* peer : peers_of(shape))
      if (const double value = ratio(shape, ours, peer); value > 0)
        json[fmt::format("{} / {}", peer, ours)] = rounded(value);
  return json;
}

Json shape_json(const RunRecord& run, const ShapeRecord& shape) {
  Json json{{"name", name_of(shape)},
            {"problem", is_packed(shape.problem) ? packed_json(shape.problem) : problem_json(shape.problem)},
            {"flops", flops_of(shape.problem)},
            {"bytes", bytes_of_traffic(shape.problem)}};
  if (is_conv(shape.problem.conv)) json["convolution"] = conv_json(shape.problem.conv);
  if (!shape.error.empty()) json["error"] = shape.error;
  json["chosen_by"] = name_of(shape.source);
  json["copies"] = shape.copies;
  json["compile_s"] = rounded(shape.compile_s);
  if (shape.race_ms > 0) json["race_ms"] = rounded(shape.race_ms);
  json["wall_s"] = rounded(shape.wall_s);
  json["peer_algorithms"] = shape.peer_algorithms;
  if (!shape.peer_caveat.empty()) json["peer_caveat"] = shape.peer_caveat;
  json["telemetry"] = telemetry_json(shape.telemetry);
  json["ratios"] = ratios_json(shape);
  json["contenders"] =
      array_of(shape.contenders, [&](const ContenderRecord& c) { return contender_json(run, shape, c); });
  if (shape.ranked > 0) json["ranked_candidates"] = shape.ranked;
  if (shape.possible > 0) json["possible_plans"] = shape.possible;
  if (!shape.candidates.empty()) json["candidates"] = array_of(shape.candidates, candidate_json);
  return json;
}

Json summary_json(const RunRecord& run) {
  Json json = Json::object();
  const bool has_packed =
      std::any_of(run.shapes.begin(), run.shapes.end(), [](const auto& s) { return is_packed(s.problem); });
  for (const char* ours : {kSluice, kSluiceRaced, kSluiceTuned}) {
    for (const char* peer : {kPeerBest, kPeerFirst, kBestFp8, kHalfPeerBest, kCudnnBest, kCudnnFirst,
                             kCudnnDeterministic, kReadFloor}) {
      if (peer == kReadFloor && !has_packed) continue;
      const RatioSummary s = summarise_ratio(run, ours, peer);
      if (s.count == 0) continue;
      json[fmt::format("{} / {}", peer, ours)] = {
          {"shapes", s.count}, {"geometric_mean", rounded(s.geometric_mean)}, {"least", rounded(s.least)}};
    }
  }
  return json;
}

}  // namespace

std::string name_of(const ShapeRecord& shape) {
  return name_of(shape.problem);
}

double median_of(const ShapeRecord& shape, const std::string& contender) {
  const ContenderRecord* found = find(shape, contender);
  return found != nullptr && found->error.empty() ? found->us.median : 0;
}

double ratio(const ShapeRecord& shape, const std::string& ours, const std::string& peer) {
  const double our_us = verified_median(shape, ours), peer_us = verified_median(shape, peer);
  return our_us > 0 && peer_us > 0 ? peer_us / our_us : 0;
}

double peak_tflops(const RunRecord& run, const Problem& problem) {
  return is_fp8(problem.a.type) ? run.fp8_peak_tflops : run.fp16_peak_tflops;
}

bool all_verified(const ShapeRecord& shape) {
  if (!shape.error.empty()) return false;
  for (const ContenderRecord& c : shape.contenders)
    if (c.name.starts_with(kSluice) && (!c.error.empty() || !c.verified)) return false;
  return std::all_of(shape.candidates.begin(), shape.candidates.end(),
                     [](const CandidateRecord& c) { return c.error.empty() && c.verified; });
}

RatioSummary summarise_ratio(const RunRecord& run, const std::string& ours, const std::string& peer) {
  std::vector<double> ratios;
  for (const ShapeRecord& shape : run.shapes)
    if (const double value = ratio(shape, ours, peer); value > 0) ratios.push_back(value);
  return {.count = static_cast<int>(ratios.size()),
          .geometric_mean = geometric_mean(ratios),
          .least = least(ratios)};
}

namespace {

/// Properties of the device other than rates, each with its source.
Json facts_json(const DeviceInfo& device) {
  const FactSources& from = device.sources;
  return {{"clusters", {device.max_clusters_of_2, device.max_clusters_of_4, device.max_clusters_of_8}},
          {"l2_bytes", device.l2_bytes},
          {"hbm_peak_gbps", rounded(device.hbm_peak_bytes_per_us * 1e-3)},
          {"sources",
           {{"peak_tflops", name_of(from.tensor_rate)},
            {"hbm_gbps", name_of(from.hbm_rate)},
            {"clusters", name_of(from.clusters)},
            {"power_limit_w", name_of(from.power_limit)}}}};
}

}  // namespace

Json run_json(const RunRecord& run, const char* schema) {
  Json versions{{"nvrtc", run.nvrtc}, {"cublaslt", run.cublaslt}, {"cublaslt_path", run.cublaslt_path}};
  if (!run.cudnn.empty()) {
    versions["cudnn"] = run.cudnn;
    versions["cudnn_path"] = run.cudnn_path;
  }
  return {{"schema", schema},
          {"started", run.started},
          {"command", run.command},
          {"commit", run.commit},
          {"machine",
           {{"gpu", run.gpu},
            {"sm_count", run.sm_count},
            {"driver", run.driver},
            {"power_limit_w", run.power_limit_w},
            {"max_sm_mhz", run.max_sm_mhz},
            {"fp16_peak_tflops", run.fp16_peak_tflops},
            {"fp8_peak_tflops", run.fp8_peak_tflops},
            {"hbm_gbps", run.hbm_gbps},
            {"facts", facts_json(run.device)},
            {"cpu", run.cpu},
            {"system", run.host_system}}},
          {"versions", versions},
          {"method",
           {{"mode", run.method},
            {"rounds", run.rounds},
            {"rest_ms", run.rest_ms},
            {"replay_us", run.replay_us},
            {"tune", run.tune},
            {"fill", run.fill}}}};
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_json(const RunRecord& run) {
  Json json = run_json(run, "sluice-bench-1");
  json["summary"] = summary_json(run);
  json["shapes"] = array_of(run.shapes, [&](const ShapeRecord& shape) { return shape_json(run, shape); });
  return json_text(json);
}

Result<void> write_json(const RunRecord& run, const std::string& path) {
  return write_whole(to_json(run), path);
}

}  // namespace sluice::bench
