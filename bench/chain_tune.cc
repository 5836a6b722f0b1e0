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
constexpr int kConfigs = 16;        // of each product: the planner's first
constexpr int kRounds = 5;          // of incumbent and candidate in turn
constexpr int kPasses = 2;          // over all steps
constexpr double kGain = 0.004;     // what a change must gain at least
constexpr double kHopeless = 1.03;  // after the first round
constexpr Wait kWaits[] = {Wait::none, Wait::first, Wait::weights_first};
constexpr Trigger kTriggers[] = {Trigger::never, Trigger::at_start, Trigger::after_loads};
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
    if (Result<void> done = find_configs(); !done) return done.error();

    // From the better of two ends: all of it off, all of it on.
    tuning_.choices.assign(layer_.size(), {});
    Result<Replay> best = replay_of(tuning_.choices);
    if (!best) return best.error();
    best_ = *best;
    const auto alone = time_in_turn(lab_, std::span(&best_, 1), {.count = kRounds, .rest_ms = 0}, nullptr);
    if (!alone) return alone.error();
    tuning_.start_us = best_us_ = spread_of(alone->front()).median;
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

  /// What each product may run on: the plan it has alone, then the model's first.
  Result<void> find_configs() {
    for (const ChainStep& step : layer_) {
      configs_.emplace_back();
      const auto* product = std::get_if<ProductStep>(&step.work);
      if (product == nullptr) continue;
      Result<std::vector<Plan>> ranked = gemm::candidates(product->problem, lab_.device.info());
      if (!ranked) return ranked.error();
      for (const Plan& plan : *ranked)
        if (configs_.back().size() < kConfigs && plan.config.combine != Combine::separate)
          configs_.back().push_back(overrides_of(plan));
    }
    return {};
  }

  /// Compiled side by side and kept loaded: a chain that wants one finds it.
  void prepare_kernels(size_t step, std::span<const PlanOverrides> configs,
                       std::span<const Overlap> overlaps) {
    const auto* product = std::get_if<ProductStep>(&layer_[step].work);
    if (product == nullptr) return;
    std::vector<Plan> wanted;
    for (PlanOverrides config : configs)
      for (const Overlap& overlap : overlaps) {
        config.overlap = overlap;
        const Result<Plan> plan =
            gemm::plan(product->problem, lab_.device.info(), config, lab_.device.records());
        if (plan) wanted.push_back(*plan);
      }
    for (Result<gemm::Kernel>& kernel : gemm::prepare(lab_.device, wanted))
      kernels_.push_back(std::move(kernel));
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

  /// Times the incumbent and the changed chain in turn; the change stays if its median is less by kGain and
  /// its slow rounds (p90) are faster than the incumbent's median.
  void try_change(const Change& change) {
    if (late()) return;
    std::vector<StepChoice> changed = tuning_.choices;
    change(changed);
    if (changed == tuning_.choices) return;
    phase_(fmt::format("tuning: {:.2f} us a layer, {} of {} changes kept", best_us_, tuning_.kept,
                       tuning_.tried));
    const Result<Replay> candidate = replay_of(changed);
    if (!candidate) return;
    const Replay both[] = {best_, *candidate};
    ++tuning_.tried;
    for (const int rounds : {1, kRounds}) {
      const auto times = time_in_turn(lab_, both, {.count = rounds, .rest_ms = 0}, nullptr);
      if (!times) return;
      const Spread before = spread_of((*times)[0]), after = spread_of((*times)[1]);
      best_us_ = before.median;
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
    prepare_kernels(step, configs_[step], std::span(&tuning_.choices[step].overlap, 1));
    for (const PlanOverrides& config : configs_[step])
      try_change([&](std::vector<StepChoice>& choices) { choices[step].overrides = config; });
    visit_boundary(step);
    for (const i64 bytes : kWarmBytes)
      if (bytes != tuning_.choices[step].hand_off_bytes)
        try_change([&](std::vector<StepChoice>& choices) { choices[step].hand_off_bytes = bytes; });
  }

  /// Between a step and the one before it: a trigger without a wait is nothing, and the other way round
  /// little.
  void visit_boundary(size_t step) {
    const size_t before = (step + layer_.size() - 1) % layer_.size();
    std::vector<Overlap> here, there;
    for (const Wait wait : kWaits) here.push_back({wait, tuning_.choices[step].overlap.trigger});
    for (const Trigger trigger : kTriggers) there.push_back({tuning_.choices[before].overlap.wait, trigger});
    prepare_kernels(step, std::span(&tuning_.choices[step].overrides, 1), here);
    prepare_kernels(before, std::span(&tuning_.choices[before].overrides, 1), there);
    for (const Wait wait : kWaits)
      for (const Trigger trigger : kTriggers)
        if ((wait == Wait::none) == (trigger == Trigger::never))
          try_change([&](std::vector<StepChoice>& choices) {
            choices[step].overlap.wait = wait;
            choices[before].overlap.trigger = trigger;
          });
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
    steps[i].hand_off_bytes = choice.hand_off_bytes;
  }
  if (steps.front().overlap) steps.front().overlap->wait = Wait::none;
  if (steps.back().overlap) steps.back().overlap->trigger = Trigger::never;
}

Result<ChainTuning> tune_chain(const Lab& lab, const ChainData& data, const Workspace& workspace,
                               double budget_s, const Phase& phase) {
  return Tuner(lab, data, workspace, budget_s, phase).run();
}

}  // namespace sluice::bench
