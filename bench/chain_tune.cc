// SPDX-License-Identifier: Apache-2.0
// Coordinate descent over the steps of a layer.
#include "bench/chain_tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "bench/measure.h"

namespace sluice::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kConfigs = 8;         // of each product: the planner's first
constexpr int kRounds = 5;          // of incumbent and candidate in turn
constexpr int kPasses = 2;          // over all steps
constexpr double kGain = 0.004;     // what a change must gain at least
constexpr double kHopeless = 1.03;  // after the first round
constexpr i64 kWarmBytes[] = {0, 2 << 20, 4 << 20, 8 << 20, 16 << 20};

/// The plan again, whatever the planner would choose.
PlanOverrides overrides_of(const Plan& plan) {
  const KernelConfig& c = plan.config;
  PlanOverrides o{.schedule = c.schedule,
                  .tile_m = c.tile.m,
                  .tile_n = c.tile.n,
                  .stages = c.stages,
                  .cluster = c.cluster};
  if (c.schedule == Schedule::plain) {
    o.warps = c.warps;
    return o;
  }
  o.store = c.store;
  o.raster = plan.split.raster;
  o.raster_group = plan.split.group;
  o.clusters = plan.split.clusters;
  o.streamed = plan.split.streamed;
  o.combine = c.combine;
  return o;
}

using Change = std::function<void(std::vector<StepChoice>&)>;

class Tuner {
 public:
  Tuner(const Lab& lab, const ChainData& data, const Workspace& workspace, double budget_s,
        const Phase& phase)
      : lab_(lab),
        data_(data),
        workspace_(workspace),
        phase_(phase),
        end_(Clock::now() + std::chrono::milliseconds(static_cast<i64>(budget_s * 1e3))) {}

  Result<ChainTuning> run() {
    const std::vector<ChainStep> all = steps_of(data_.spec(), data_.memory());
    const size_t layers = static_cast<size_t>(data_.spec().layers * data_.spec().passes);
    layer_.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / layers));
    if (Result<void> done = prepare_kernels(); !done) return done.error();

    // From the better of two ends: all of it off, all of it on.
    tuning_.choices.assign(layer_.size(), {});
    Result<Replay> best = replay_of(tuning_.choices);
    if (!best) return best.error();
    best_ = *best;
    try_change([&](std::vector<StepChoice>& choices) {
      for (StepChoice& choice : choices) choice.overlap = {Wait::weights_first, Trigger::at_start};
    });
    for (int pass = 0; pass < kPasses; ++pass) {
      const int kept = tuning_.kept;
      for (size_t step = 0; step < layer_.size(); ++step) visit(step, pass);
      if (kept == tuning_.kept) break;
    }
    tuning_.tuned_us = best_us_;
    return tuning_;
  }

 private:
  bool late() const { return Clock::now() >= end_; }

  /// All that any change may ask for, compiled side by side.
  Result<void> prepare_kernels() {
    std::vector<Plan> wanted;
    for (const ChainStep& step : layer_) {
      configs_.emplace_back();
      const auto* product = std::get_if<ProductStep>(&step.work);
      if (product == nullptr) continue;
      Result<std::vector<Plan>> ranked = gemm::candidates(product->problem, lab_.device.info());
      if (!ranked) return ranked.error();
      for (const Plan& plan : *ranked) {
        if (configs_.back().size() == kConfigs) break;
        if (plan.config.combine == Combine::separate) continue;
        configs_.back().push_back(overrides_of(plan));
        for (const Overlap& overlap : overlaps()) {
          wanted.push_back(plan);
          wanted.back().config.overlap = overlap;
        }
      }
      Result<Plan> planned = gemm::plan(product->problem, lab_.device.info(), {}, lab_.device.records());
      if (!planned) return planned.error();
      for (const Overlap& overlap : overlaps()) {
        wanted.push_back(*planned);
        wanted.back().config.overlap = overlap;
      }
    }
    phase_(fmt::format("compiling {} kernels", wanted.size()));
    kernels_ = gemm::prepare(lab_.device, wanted);  // kept loaded: a chain that wants one finds it
    return {};
  }

  static std::vector<Overlap> overlaps() {
    std::vector<Overlap> all;
    for (const Wait wait : {Wait::none, Wait::first, Wait::weights_first})
      for (const Trigger trigger : {Trigger::never, Trigger::at_start, Trigger::after_loads})
        all.push_back({wait, trigger});
    return all;
  }

  Result<Replay> replay_of(const std::vector<StepChoice>& choices) const {
    std::vector<ChainStep> steps = steps_of(data_.spec(), data_.memory());
    put_choices(choices, steps);
    const Result<Chain> chain = Chain::prepare(lab_.device, steps, {.overlap = ChainOverlap::off});
    if (!chain) return chain.error();
    const Result<ChainGraph> graph = ChainGraph::capture(*chain, lab_.stream.get(), workspace_.view());
    if (!graph) return graph.error();
    return Replay{.launch = [graph = *graph](Stream stream) { return graph.replay(stream); },
                  .launches = data_.spec().layers * data_.spec().passes};
  }

  /// Times the incumbent and the changed chain in turn; the change stays if every quantile says so.
  void try_change(const Change& change) {
    if (late()) return;
    std::vector<StepChoice> changed = tuning_.choices;
    change(changed);
    const Result<Replay> candidate = replay_of(changed);
    if (!candidate) return;
    const Replay both[] = {best_, *candidate};
    ++tuning_.tried;
    for (const int rounds : {1, kRounds}) {
      const auto times = time_in_turn(lab_, both, {.count = rounds, .rest_ms = 0}, nullptr);
      if (!times) return;
      const Spread before = spread_of((*times)[0]), after = spread_of((*times)[1]);
      best_us_ = before.median;
      if (tuning_.start_us == 0) tuning_.start_us = before.median;
      if (rounds == 1 && after.median > before.median * kHopeless) return;
      if (rounds > 1 && (after.median > before.median * (1 - kGain) || after.p90 > before.median)) return;
      if (rounds > 1) best_us_ = after.median;
    }
    ++tuning_.kept;
    tuning_.choices = changed;
    best_ = *candidate;
  }

  void visit(size_t step, int pass) {
    phase_(fmt::format("tuning {}, pass {}: {:.2f} us a layer, {} of {} changes kept", layer_[step].name,
                       pass + 1, best_us_, tuning_.kept, tuning_.tried));
    for (const PlanOverrides& config : configs_[step])
      try_change([&](std::vector<StepChoice>& choices) { choices[step].overrides = config; });
    const StepChoice now = tuning_.choices[step];
    for (const Overlap& overlap : overlaps())
      if (overlap != now.overlap)
        try_change([&](std::vector<StepChoice>& choices) { choices[step].overlap = overlap; });
    for (const i64 bytes : kWarmBytes)
      if (bytes != tuning_.choices[step].warm_bytes)
        try_change([&](std::vector<StepChoice>& choices) { choices[step].warm_bytes = bytes; });
  }

  const Lab& lab_;
  const ChainData& data_;
  const Workspace& workspace_;
  const Phase& phase_;
  Clock::time_point end_;
  std::vector<ChainStep> layer_;
  std::vector<std::vector<PlanOverrides>> configs_;  // of each step
  std::vector<Result<gemm::Kernel>> kernels_;
  ChainTuning tuning_;
  Replay best_;
  double best_us_ = 0;
};

}  // namespace

void put_choices(std::span<const StepChoice> choices, std::vector<ChainStep>& steps) {
  if (choices.empty()) return;
  for (size_t i = 0; i < steps.size(); ++i) {
    const StepChoice& choice = choices[i % choices.size()];
    if (auto* product = std::get_if<ProductStep>(&steps[i].work)) product->overrides = choice.overrides;
    steps[i].overlap = choice.overlap;
    steps[i].warm_bytes = choice.warm_bytes;
  }
  if (steps.front().overlap) steps.front().overlap->wait = Wait::none;
  if (steps.back().overlap) steps.back().overlap->trigger = Trigger::never;
}

Result<ChainTuning> tune_chain(const Lab& lab, const ChainData& data, const Workspace& workspace,
                               double budget_s, const Phase& phase) {
  return Tuner(lab, data, workspace, budget_s, phase).run();
}

}  // namespace sluice::bench
