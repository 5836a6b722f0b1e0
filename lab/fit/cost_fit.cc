// SPDX-License-Identifier: Apache-2.0
// See cost_fit.h.
#include "lab/fit/cost_fit.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>

#include <sluice/bench/parse.h>
#include <sluice/kernels/registry.h>
#include <sluice/plan/dense/plain_plans.h>
#include <sluice/plan/dense/problem_checks.h>
#include <sluice/plan/dense/slices.h>
#include <sluice/plan/text/json_text.h>
#include <sluice/run/text_file.h>
#include <sluice/text.h>
#include <sluice/try.h>

#include "bench/conv.h"

namespace sluice::fitting {
namespace {

/// Weights of the spread and of the error of estimated times in the objective; the loss of the pick has
/// weight 1. The error is included only to keep estimates realistic.
constexpr double kSpreadWeight = 0.15;
constexpr double kErrorWeight = 0.05;
/// Timings above this multiple of the best are ignored, because the planner would not pick such plans.
constexpr double kFarFromBest = 2.0;

/// Converts values, outermost axis first, to Axes.
Axes axes_of(const Json& j, int others) {
  const std::vector<int> values = j;
  Axes axes{others, others, others};
  if (!values.empty()) axes.w = values[values.size() - 1];
  if (values.size() > 1) axes.h = values[values.size() - 2];
  if (values.size() > 2) axes.d = values[values.size() - 3];
  return axes;
}
Result<Conv> conv_of(const Json& j) {
  Conv v{.spatial = static_cast<int>(j.at("size").size()),
         .images = j.at("images"),
         .channels = j.at("channels"),
         .filters = j.at("filters"),
         .size = axes_of(j.at("size"), 1),
         .filter = axes_of(j.at("filter"), 1),
         .stride = axes_of(j.at("stride"), 1),
         .dilation = axes_of(j.at("dilation"), 1),
         .padding = axes_of(j.at("padding"), 0),
         .padding_after = axes_of(j.at("padding_after"), 0),
         .x_pitch = j.at("x_pitch"),
         .y_pitch = j.at("y_pitch")};
  SLUICE_TAKE(v.op, bench::parse_name("op", j.at("op").get<std::string>(),
                                      {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad}));
  return v;
}

Result<Problem> unchecked_problem_of(const Json& j) {
  Problem p{.m = j.at("m"), .n = j.at("n"), .k = j.at("k"), .batch = j.at("batch")};
  std::optional<Error> error;
  const auto take = [&]<class T>(const char* what, const char* key, T& value) {
    const Result<T> parsed = bench::parse_name<T>(what, j.at(key).get<std::string>());
    if (parsed)
      value = *parsed;
    else
      error = parsed.error();
  };
  take("type", "a", p.a.type);
  take("type", "b", p.b.type);
  take("type", "d", p.d.type);
  take("layout", "a_layout", p.a.major);
  take("layout", "b_layout", p.b.major);
  take("accumulate", "accumulate", p.accumulate);
  take("scale", "scale_a", p.epilogue.scale_a);
  take("scale", "scale_b", p.epilogue.scale_b);
  take("activation", "activation", p.epilogue.activation);
  p.epilogue.bias = j.at("bias").get<bool>() ? Bias::column : Bias::none;
  p.epilogue.residual = j.at("residual").get<bool>();
  p.epilogue.update = j.value("update", "set") == "add" ? Update::add : Update::set;
  p.epilogue.gated = j.value("gated", false);
  p.epilogue.scale_d = j.value("scale_d", "none") == "tensor" ? ScaleMode::tensor : ScaleMode::none;
  p.deterministic = j.value("deterministic", true);
  if (error) return *error;
  return p;
}
Result<Problem> problem_of(const Json& j) {
  SLUICE_TAKE(const Problem p, unchecked_problem_of(j));
  return check_problem(p);
}
/// Returns the product that computes a shape's convolution, also a pointwise one.
Result<Problem> conv_problem_of(const Json& shape) {
  SLUICE_TAKE(const Problem said, unchecked_problem_of(shape.at("problem")));
  SLUICE_TAKE(const Conv conv, conv_of(shape.at("convolution")));
  return bench::conv_problem(conv, said);
}

/// Returns the first number after `key` and then `next` in a designated initialiser; 0 if there is none or it
/// does not fit into an int.
int number_after(const std::string& text, const std::string& key, const std::string& next) {
  size_t at = text.find(key);
  if (at != std::string::npos) at = text.find(next, at);
  int number = 0;
  if (at != std::string::npos)
    std::from_chars(text.data() + at + next.size(), text.data() + text.size(), number);
  return number;
}

/// Returns how a timed config combines split-K slices, read from its text.
Combine combine_in(const std::string& config) {
  for (const Combine combine : {Combine::last_arriver, Combine::separate, Combine::add})
    if (config.find(std::string("Combine::") + name_of(combine)) != std::string::npos) return combine;
  return Combine::none;
}

/// Returns the schedule that a config's text names; cooperative if it names none.
Schedule schedule_in(const std::string& config) {
  for (const Schedule schedule : {Schedule::ping_pong, Schedule::plain, Schedule::plain_wgmma})
    if (config.find(std::string("Schedule::") + name_of(schedule) + ",") != std::string::npos)
      return schedule;
  return Schedule::cooperative;
}

/// Returns the slices along k of a split's text. Texts of 0.2 have the number of split tiles instead; 0 if
/// those were cut anywhere (stream-K).
int slices_in(const std::string& split, int clusters) {
  if (split.find(".slices") != std::string::npos) return number_after(split, ".slices", " = ");
  const int tiles = number_after(split, ".streamed", " = ");
  return tiles <= 0 ? 1 : clusters % tiles == 0 ? clusters / tiles : 0;
}

Result<FitShape::Timing> timing_of(const Problem& p, const Json& candidate) {
  const std::string config = candidate.at("config"), split = candidate.at("split");
  const bool direct = config.find("StorePath::direct") != std::string::npos;
  const bool swapped = config.find(".d_major = sluice::Major::mn") != std::string::npos;
  const bool along_n = split.find("Raster::along_n") != std::string::npos;
  const BaseConfig base{schedule_in(config), number_after(config, ".tile", ".m = "),
                        number_after(config, ".tile", ".n = ")};
  const ClusterShape cluster{number_after(config, ".cluster", ".m = "),
                             number_after(config, ".cluster", ".n = "),
                             std::max(number_after(config, ".cluster", ".k = "), 1)};
  const int clusters = number_after(split, ".clusters", " = ");
  const WorkSplit work{clusters, along_n ? Raster::along_n : Raster::along_m,
                       number_after(split, ".group", " = "), slices_in(split, clusters)};
  const bool plain = is_plain(base.schedule);
  const bool complete = base.tile_m >= (plain ? 8 : 64) && base.tile_m <= 256 &&
                        base.tile_n >= (plain ? 16 : 8) && base.tile_n <= 256 && cluster.m > 0 &&
                        cluster.n > 0 && cluster.m <= 8 && cluster.n <= 8 && cluster.k <= 8;
  KernelConfig c = complete ? config_for(swapped ? transposed(p) : p, base, cluster,
                                         direct ? StorePath::direct : StorePath::tma)
                            : KernelConfig{};
  if (plain) {
    c.warps = std::clamp(number_after(config, ".warps", " = "), 0, 64);
    c.stages = number_after(config, ".stages", " = ");
  }
  const char* rule = complete ? validate(c) : "tile and cluster must be there, of 8 to 256 and 1 to 8";
  c.combine = combine_in(config);
  if (rule == nullptr && (work.clusters < 1 || work.group < 1))
    rule = "clusters and group must be at least 1";
  if (rule != nullptr)
    return Error{ErrorCode::invalid_argument,
                 fmt::format("{}, {}: {}", in_quotes(config), in_quotes(split), rule)};
  return FitShape::Timing{c, work, candidate.at("us")};
}

/// Returns true if the present planner considers this plan. Sweeps of earlier versions contain other plans
/// too.
bool is_searched(const FitShape& shape, const FitShape::Timing& t) {
  return t.split.slices > 0 && may_win(product_of(shape.problem, t.config), t.config, t.split.slices > 1);
}

/// Returns the model's estimate. Plain schedules have their own model.
double estimated_us(const FitShape& shape, const FitShape::Timing& t, const DeviceInfo& device,
                    const Costs& constants) {
  if (is_plain(t.config.schedule)) return plain_estimate(shape.problem, device, t.config, constants).total_us;
  return estimate(product_of(shape.problem, t.config), t.config, t.split, device, constants).total_us;
}

struct Scored {
  double quality;  // the objective, which the search minimises
  FitQuality shown;
};

Scored score(const std::vector<FitShape>& shapes, const DeviceInfo& device, const Costs& constants) {
  double log_loss = 0, spread = 0, soft = 0, error = 0;
  FitQuality q;
  for (const FitShape& shape : shapes) {
    double best = 1e30, pick = 0, least_estimate = 1e30, mean = 0, weights = 0;
    std::vector<std::pair<double, double>> logs;  // log(estimate / time), weight
    for (const FitShape::Timing& t : shape.timings) best = std::min(best, t.us);
    for (const FitShape::Timing& t : shape.timings) {
      if (!is_searched(shape, t)) continue;
      const double estimated = estimated_us(shape, t, device, constants);
      if (estimated < least_estimate) least_estimate = estimated, pick = t.us;
      if (t.us > kFarFromBest * best) continue;
      const double weight = std::pow(best / t.us, 4);
      logs.emplace_back(std::log(estimated / t.us), weight);
      mean += weight * logs.back().first;
      weights += weight;
    }
    double squares = 0;
    for (const auto& [value, weight] : logs) squares += weight * std::pow(value - mean / weights, 2);
    const double loss = pick > 0 ? pick / best : 1;
    log_loss += std::log(loss);
    soft += std::pow(std::log(loss), 2);  // squared, so that large losses count more
    spread += squares / weights;
    error += std::pow(mean / weights, 2);
    if (loss > q.worst_loss) q.worst_loss = loss, q.worst_shape = shape.name;
  }
  const double count = static_cast<double>(std::max<size_t>(shapes.size(), 1));
  q.loss = std::exp(log_loss / count);
  q.spread = std::sqrt(spread / count);
  q.error = std::sqrt(error / count);
  return {log_loss / count + 2 * soft / count + kSpreadWeight * q.spread + kErrorWeight * q.error, q};
}

}  // namespace

FitPick pick_of(const FitShape& shape, const DeviceInfo& device, const Costs& constants) {
  FitPick found{nullptr, nullptr, 0, 0};
  for (const FitShape::Timing& t : shape.timings) {
    const double us = estimated_us(shape, t, device, constants);
    const bool better = found.pick == nullptr || us < found.estimate_us;
    if (better && is_searched(shape, t)) found.pick = &t, found.estimate_us = us;
    if (found.best == nullptr || t.us < found.best->us) found.best = &t, found.best_estimate_us = us;
  }
  if (found.pick == nullptr) found.pick = found.best, found.estimate_us = found.best_estimate_us;
  return found;
}

Result<std::vector<FitShape>> read_fit_shapes(const std::string& path) {
  SLUICE_TAKE(const std::string text, read_text_file(path, kMostJsonBytes));
  const Result<Json> read = parse_json_text(text);
  if (!read)
    return Error{ErrorCode::invalid_argument,
                 fmt::format("{} {}: give a whole file that `sluice tune --json` wrote", escaped(path),
                             read.error().message)};
  const Json& all = *read;
  std::vector<FitShape> shapes;
  try {
    for (const Json& j : all.at("shapes")) {
      if (j.at("problem").contains("weights")) continue;  // a packed product; its cost model is not fitted
      SLUICE_TAKE(const Problem problem,
                  j.contains("convolution") ? conv_problem_of(j) : problem_of(j.at("problem")));
      FitShape shape{.name = j.at("name"), .problem = problem};
      for (const Json& candidate : j.value("candidates", Json::array()))
        if (candidate.value("verified", false) && candidate.value("us", 0.0) > 0) {
          const Result<FitShape::Timing> timing = timing_of(problem, candidate);
          if (!timing)
            return Error{timing.error().code, fmt::format("{}: {}: {}", escaped(path), escaped(shape.name),
                                                          timing.error().message)};
          shape.timings.push_back(*timing);
        }
      if (shape.timings.size() > 1) shapes.push_back(std::move(shape));
    }
  } catch (const Json::exception& error) {
    // For example "[json.exception.out_of_range.403] key 'm' not found".
    const std::string what = error.what();
    return Error{
        ErrorCode::invalid_argument,
        fmt::format("{} is not what `sluice tune --json` writes ({}): measure the problems again",
                    escaped(path), escaped(what.substr(std::min(what.find("] "), what.size() - 2) + 2)))};
  }
  return shapes;
}

FitQuality judge(const std::vector<FitShape>& shapes, const DeviceInfo& device, const Costs& constants) {
  return score(shapes, device, constants).shown;
}

const std::vector<FitParameter>& fit_parameters() {
  static const std::vector<FitParameter> kAll = [] {
    std::vector<FitParameter> rows;
    for (const FitParameter& row : cost_constants())
      if (row.most > 0) rows.push_back(row);
    return rows;
  }();
  return kAll;
}

Costs fit(const std::vector<FitShape>& shapes, const DeviceInfo& device, const FitStart& start, int passes,
          const std::function<void(int, const FitQuality&)>& report) {
  Costs constants = start.constants;
  const auto moves = [&](const FitParameter& parameter) {
    return start.moved.empty() ||
           std::find(start.moved.begin(), start.moved.end(), parameter.name) != start.moved.end();
  };
  double best = score(shapes, device, constants).quality;
  for (int pass = 0; pass < passes; ++pass) {
    const double step = std::pow(0.75, pass) * 0.5;  // multiplies by 1.5, 1.375, ...
    for (const FitParameter& parameter : fit_parameters()) {
      if (!moves(parameter)) continue;
      for (const double factor : {1 + step, 1 / (1 + step), 1 + step / 4, 1 / (1 + step / 4)}) {
        Costs tried = constants;
        double& value = tried.*parameter.member;
        value = std::clamp(value * factor, parameter.least, parameter.most);
        const double quality = score(shapes, device, tried).quality;
        if (quality < best) best = quality, constants = tried;
      }
    }
    report(pass + 1, judge(shapes, device, constants));
  }
  return constants;
}

}  // namespace sluice::fitting
