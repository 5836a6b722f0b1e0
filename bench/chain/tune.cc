// SPDX-License-Identifier: Apache-2.0
// Coordinate descent over the steps of a layer.
#include "bench/chain/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <random>

#include <sluice/chain/chain.h>
#include <sluice/host/planner/dense/tuned_choice.h>
#include <sluice/host/planner/packed/packed_cost_model.h>
#include <sluice/records/record.h>

#include "bench/measure.h"

namespace sluice::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kKernels = 20;           // of each product: the planner's first
constexpr size_t kOfAKind = 6;            // at least: enum Kind
constexpr int kDeepRingBytes = 60 << 10;  // of codes in a CTA's rings, at least
constexpr int kHalfOfRegisters = kSchedulersOfSm * kRegistersOfScheduler / 2;
constexpr int kRounds = 5;            // of incumbent and candidate in turn
constexpr int kPasses = 2;            // over all steps
constexpr int kGraphPasses = 2;       // through the layers in a graph: short ones leave time for more changes
constexpr int kWanderings = 300;      // without a gain
constexpr double kWanderShare = 0.9;  // of the time: the rest is for taking overlaps off
constexpr int kCarefulRounds = 15;    // of a change that need not gain
constexpr double kGain = 0.004;       // what a change must gain at least
constexpr double kHopeless = 1.03;    // after the first round
constexpr Wait kWaits[] = {Wait::none, Wait::first, Wait::weights_first};
constexpr Trigger kTriggers[] = {Trigger::never, Trigger::at_start, Trigger::after_loads};
constexpr Spacing kSpacings[] = {Spacing::memory, Spacing::registers, Spacing::none};
constexpr i64 kHandOffBytes[] = {0, 2 << 20, 4 << 20, 8 << 20, 16 << 20};
constexpr i64 kPrefetchBytes[] = {0, 2 << 20, 6 << 20};

/// Of dense kernels, as neighbours feel them. halves: beside a CTA of one of these, one of another kernel
/// fits on the SM and may fill its ring; two that each keep an SM to themselves share one if their spacing
/// differs (host/device/spread.h). Of packed weights' kernels, whose warps have many registers, halves leave
/// half of those too. deep: much of the weights is there when the launch before has ended; deep_halves: and a
/// neighbour fits.
enum class Kind { roles, plain, halves, wholes, deep_halves, deep };

Kind kind_of(const Plan& plan) {
  if (!is_plain(plan.config.schedule)) return Kind::roles;
  if (plan.config.schedule == Schedule::plain) return Kind::plain;
  return plan.smem_bytes <= kBesideAlone ? Kind::halves : Kind::wholes;
}
Kind kind_of(const packed::Plan& plan) {
  const auto* narrow = std::get_if<NarrowConfig>(&plan.config);
  const auto* strip = std::get_if<StripConfig>(&plan.config);
  const bool few_registers =
      narrow != nullptr ? threads_of(*narrow) * packed::estimate_registers(*narrow) <= kHalfOfRegisters
                        : strip == nullptr || math_groups(*strip) <= 2;
  const bool half = plan.smem_bytes <= kBesideAlone && few_registers;
  if (narrow != nullptr && narrow->warps * (narrow->stages - 1) * stage_code_bytes(*narrow) >= kDeepRingBytes)
    return half ? Kind::deep_halves : Kind::deep;
  return half ? Kind::halves : Kind::wholes;
}

/// Do they differ in nothing but in how many CTAs they promise an SM? Those are mostly one kernel twice.
bool same_but_for_ctas(const packed::Plan& x, const packed::Plan& y) {
  const auto* first = std::get_if<NarrowConfig>(&x.config);
  const auto* second = std::get_if<NarrowConfig>(&y.config);
  if (first == nullptr || second == nullptr) return false;
  NarrowConfig other = *second;
  other.ctas = first->ctas;
  return *first == other;
}
bool same_but_for_ctas(const Plan&, const Plan&) {
  return false;
}

using Choice = decltype(TunedStep::kernel);
using Change = std::function<void(std::vector<TunedStep>&)>;

class Tuner {
 public:
  Tuner(const Lab& lab, const ChainData& data, const TuneRequest& request, const Workspace& workspace,
        const Phase& phase)
      : lab_(lab),
        data_(data),
        spec_(fused(data.spec(), request.fusion)),
        workspace_(workspace),
        phase_(phase),
        end_(after(request.budget_s)),
        wander_end_(after(request.budget_s * kWanderShare)) {
    spec_.passes = std::min(spec_.passes, kGraphPasses);
  }

  Result<ChainTuning> run() {
    if (Result<void> done = check_size(); !done) return done.error();
    if (Result<void> done = begin_with_kernels_alone(); !done) return done.error();
    if (Result<void> done = find_kernels(); !done) return done.error();

    tuning_.alone = tuning_.choices;
    tuning_.name = name_of(spec_);
    Result<Replay> best = replay_of(tuning_.choices);
    if (!best) return best.error();
    best_ = *best;
    const auto alone = time_in_turn(lab_, std::span(&best_, 1), {.count = kRounds, .rest_ms = 0});
    if (!alone) return alone.error();
    tuning_.start_us = best_us_ = spread_of(alone->front().us).median;
    try_starts();
    for (int pass = 0; pass < kPasses; ++pass) {
      const int kept = tuning_.kept;
      for (size_t step = 0; step < tuning_.layer.size(); ++step) visit(step, pass);
      if (kept == tuning_.kept) break;
    }
    wander();
    for (size_t step = 0; step < tuning_.layer.size(); ++step) take_off(step);
    tuning_.tuned_us = best_us_;
    return tuning_;
  }

 private:
  /// What a change must do to stay: gain, or lose nothing.
  enum class Keep { gain, no_loss };

  static Clock::time_point after(double seconds) {
    return Clock::now() + std::chrono::milliseconds(static_cast<i64>(seconds * 1e3));
  }
  bool late() const { return Clock::now() >= end_; }

  Result<void> check_size() const {
    const i64 bytes = spec_.layers * weight_bytes(spec_), l2 = lab_.device.info().l2_bytes;
    if (spec_.layers >= kLeastTunedLayers && bytes >= kLeastL2Times * l2) return {};
    return Error{
        ErrorCode::invalid_argument,
        fmt::format("{} layers have {:.0f} MB of weights: the tuner needs at least {} layers, and {} "
                    "times the {:.0f} MB of L2, or it would time what L2 holds",
                    spec_.layers, static_cast<double>(bytes) / 1e6, kLeastTunedLayers, kLeastL2Times,
                    static_cast<double>(l2) / 1e6)};
  }

  /// Steps after which all come again: fewer than a layer's where it is one product four times. Equal places
  /// must have equal choices, or a record could not tell them apart.
  static size_t period(std::span<const ChainStep> layer) {
    for (size_t steps = 1; steps < layer.size(); ++steps) {
      bool again = layer.size() % steps == 0;
      for (size_t i = steps; again && i < layer.size(); ++i)
        again = recipe_of(layer[i]) == recipe_of(layer[i - steps]);
      if (again) return steps;
    }
    return layer.size();
  }

  /// The layer in the middle, which has neighbours on both sides, and what its products run on alone.
  Result<void> begin_with_kernels_alone() {
    const std::vector<ChainStep> all = steps_of(spec_, data_.memory());
    const size_t count = all.size() / static_cast<size_t>(spec_.layers * spec_.passes);
    const size_t first = all.size() > count ? count : 0;
    const Result<ChainPlan> plan =
        plan_chain(all, lab_.device.info(), {.overlap = ChainOverlap::off}, lab_.device.records());
    if (!plan) return plan.error();
    const Result<ChainPlan> known = plan_chain(all, lab_.device.info(), {}, lab_.device.records());
    if (!known) return known.error();
    const size_t end = first + period(std::span(all).subspan(first, count));
    for (size_t i = first; i < end; ++i) {
      tuning_.layer.push_back(all[i]);
      tuning_.choices.push_back(choice_of(*plan, plan->steps[i]));
      recorded_.push_back(choice_of(*known, known->steps[i]));
    }
    return {};
  }

  /// What each product may run on: the model's first of each kind, which it ranks alone, where those that
  /// need an SM to themselves seem better than they are here.
  Result<void> find_kernels() {
    for (const ChainStep& step : tuning_.layer) {
      choices_.emplace_back();
      firsts_.emplace_back();
      if (const auto* product = std::get_if<ProductStep>(&step.work)) {
        Result<std::vector<Plan>> ranked = gemm::candidates(product->problem, lab_.device.info());
        if (!ranked) return ranked.error();
        std::erase_if(*ranked, [](const Plan& plan) { return plan.config.combine == Combine::separate; });
        take_of_each_kind(*ranked);
      }
      if (const auto* packed = std::get_if<PackedStep>(&step.work)) {
        const Result<std::vector<packed::Plan>> ranked =
            packed::candidates(packed->problem, lab_.device.info());
        if (!ranked) return ranked.error();
        take_of_each_kind(*ranked);
      }
    }
    return {};
  }

  template <class AnyPlan>
  void take_of_each_kind(const std::vector<AnyPlan>& ranked) {
    std::map<Kind, size_t> taken;
    for (size_t i = 0; i < ranked.size(); ++i) {
      const AnyPlan& plan = ranked[i];
      if (i > 0 && same_but_for_ctas(plan, ranked[i - 1])) continue;
      const Kind kind = kind_of(plan);
      size_t& of_its_kind = taken[kind];
      if (choices_.back().size() >= kKernels && of_its_kind >= kOfAKind) continue;
      if (of_its_kind == 0) firsts_.back()[kind] = choice_of(plan);
      ++of_its_kind;
      choices_.back().push_back(choice_of(plan));
    }
  }

  /// In the place of all kernels alone and off: on; on in halves or deep rings; what a record says; that,
  /// with the kernels that are best alone; with halves or deep rings. Then the best of these, its launches
  /// spaced by turns, all by registers or not at all, or all begun when loads are issued.
  void try_starts() {
    const auto turn_on = [](std::vector<TunedStep>& choices) {
      for (TunedStep& choice : choices) choice.overlap = {Wait::weights_first, Trigger::at_start};
    };
    try_change(turn_on);
    try_firsts([&](std::vector<TunedStep>& choices) { turn_on(choices); });
    try_change([&](std::vector<TunedStep>& choices) { choices = recorded_; });
    try_change([&](std::vector<TunedStep>& choices) {
      choices = recorded_;
      for (size_t i = 0; i < choices.size(); ++i) choices[i].kernel = tuning_.alone[i].kernel;
    });
    try_firsts([&](std::vector<TunedStep>& choices) { choices = recorded_; });
    for (const Spacing first : {Spacing::memory, Spacing::registers})
      for (const Spacing of_companions : {Spacing::registers, Spacing::none})
        try_change([&](std::vector<TunedStep>& choices) { space_by_turns(choices, first, of_companions); });
    for (const Spacing spacing : {Spacing::registers, Spacing::none})
      try_change([&](std::vector<TunedStep>& choices) {
        for (TunedStep& choice : choices) put_spacing(spacing, choice);
      });
    try_change([&](std::vector<TunedStep>& choices) {
      for (TunedStep& choice : choices)
        if (choice.overlap.trigger == Trigger::at_start) choice.overlap.trigger = Trigger::after_loads;
    });
  }

  /// The model's first kernel of a kind for every product that has some, after `change`.
  void try_firsts(const Change& change) {
    for (const Kind kind : {Kind::halves, Kind::deep_halves, Kind::deep}) {
      const auto has = [&](const std::map<Kind, Choice>& firsts) { return firsts.contains(kind); };
      if (std::none_of(firsts_.begin(), firsts_.end(), has)) continue;
      try_change([&](std::vector<TunedStep>& choices) {
        change(choices);
        put_firsts(kind, choices);
      });
    }
  }

  /// Companions: norms and quantisers, which have no kernels to choose from.
  void space_by_turns(std::vector<TunedStep>& choices, Spacing first, Spacing of_companions) const {
    Spacing next = first;
    for (size_t i = 0; i < choices.size(); ++i) {
      const bool companion = choices_[i].empty();
      put_spacing(companion ? of_companions : next, choices[i]);
      if (!companion) next = next == Spacing::memory ? Spacing::registers : Spacing::memory;
    }
  }

  /// A launch that does not begin early has no spacing of its own.
  static void put_spacing(Spacing spacing, TunedStep& choice) {
    if (choice.overlap.wait != Wait::none) choice.overlap.spacing = spacing;
  }
  static Overlap with_wait(Overlap overlap, Wait wait) {
    overlap.wait = wait;
    if (wait == Wait::none) overlap.spacing = Spacing::memory;
    return overlap;
  }

  void put_firsts(Kind kind, std::vector<TunedStep>& choices) const {
    for (size_t i = 0; i < choices.size(); ++i)
      if (const auto first = firsts_[i].find(kind); first != firsts_[i].end())
        choices[i].kernel = first->second;
  }

  /// Compiled side by side and kept loaded: a chain that wants one finds it.
  void prepare_kernels(size_t step, std::span<const Choice> choices, std::span<const Overlap> overlaps) {
    std::vector<Plan> products;
    std::vector<packed::Plan> packed;
    for (const Choice& choice : choices)
      for (const Overlap& overlap : overlaps) {
        ChainStep changed = tuning_.layer[step];
        if (!put_choice({.kernel = choice}, changed)) continue;
        const DeviceInfo& device = lab_.device.info();
        if (auto* s = std::get_if<ProductStep>(&changed.work)) {
          s->overrides.overlap = overlap;
          if (const auto plan = gemm::plan(s->problem, device, s->overrides)) products.push_back(*plan);
        }
        if (auto* s = std::get_if<PackedStep>(&changed.work)) {
          s->overrides.overlap = overlap;
          if (const auto plan = packed::plan(s->problem, device, s->overrides)) packed.push_back(*plan);
        }
      }
    for (Result<gemm::Kernel>& kernel : gemm::prepare(lab_.device, products))
      kernels_.push_back(std::move(kernel));
    for (Result<packed::Kernel>& kernel : packed::prepare(lab_.device, packed))
      packed_kernels_.push_back(std::move(kernel));
  }

  Result<Replay> replay_of(const std::vector<TunedStep>& choices) const {
    std::vector<ChainStep> steps = steps_of(spec_, data_.memory());
    put_choices(choices, steps);
    const Result<Chain> chain = Chain::prepare(lab_.device, steps, {.overlap = ChainOverlap::off});
    if (!chain) return chain.error();
    const Result<ChainGraph> graph = ChainGraph::capture(*chain, lab_.stream.get(), workspace_.view());
    if (!graph) return graph.error();
    return Replay{.launch = [graph = *graph](Stream stream) { return graph.replay(stream); },
                  .launches = spec_.layers * spec_.passes};
  }

  /// Times the incumbent and the changed chain in turn; a gain is a median that is less by kGain, and slow
  /// rounds (p90) that are faster than the incumbent's median.
  void try_change(const Change& change, Keep keep = Keep::gain) {
    if (late()) return;
    std::vector<TunedStep> changed = tuning_.choices;
    change(changed);
    if (changed == tuning_.choices) return;
    phase_(fmt::format("tuning: {:.2f} us a layer, {} of {} changes kept", best_us_, tuning_.kept,
                       tuning_.tried));
    const Result<Replay> candidate = replay_of(changed);
    if (!candidate) return;
    const Replay both[] = {best_, *candidate};
    ++tuning_.tried;
    for (const int rounds : {1, keep == Keep::gain ? kRounds : kCarefulRounds}) {
      const auto times = time_in_turn(lab_, both, {.count = rounds, .rest_ms = 0});
      if (!times) return;
      const Spread before = spread_of((*times)[0].us), after = spread_of((*times)[1].us);
      best_us_ = before.median;
      if (rounds == 1 && after.median > before.median * kHopeless) return;
      const bool gains = after.median <= before.median * (1 - kGain) && after.p90 <= before.median;
      if (rounds > 1 && !(keep == Keep::gain ? gains : after.median <= before.median)) return;
      if (rounds > 1) best_us_ = after.median;
    }
    ++tuning_.kept;
    tuning_.choices = changed;
    best_ = *candidate;
  }

  void visit(size_t step, int pass) {
    phase_(fmt::format("tuning {}, pass {}: {:.2f} us a layer, {} of {} changes kept",
                       tuning_.layer[step].name, pass + 1, best_us_, tuning_.kept, tuning_.tried));
    prepare_kernels(step, choices_[step], std::span(&tuning_.choices[step].overlap, 1));
    for (const Choice& choice : choices_[step])
      try_change([&](std::vector<TunedStep>& choices) { choices[step].kernel = choice; });
    visit_boundary(step);
    visit_spacing(step);
    for (const i64 bytes : kHandOffBytes)
      if (bytes != tuning_.choices[step].hand_off_bytes)
        try_change([&](std::vector<TunedStep>& choices) { choices[step].hand_off_bytes = bytes; });
    for (const i64 bytes : kPrefetchBytes)
      if (!choices_[step].empty() && bytes != tuning_.choices[step].prefetch_bytes)
        try_change([&](std::vector<TunedStep>& choices) { choices[step].prefetch_bytes = bytes; });
  }

  /// What is left of the time: neighbours changed together at random, where descent by one step found nothing
  /// more. Long after the last gain is enough.
  void wander() {
    std::mt19937 dice(1);
    const auto any = [&dice](size_t count) {
      return std::uniform_int_distribution<size_t>(0, count - 1)(dice);
    };
    std::vector<size_t> products;
    for (size_t i = 0; i < choices_.size(); ++i)
      if (!choices_[i].empty()) products.push_back(i);
    if (products.empty()) return;
    for (int since_gain = 0; since_gain < kWanderings && Clock::now() < wander_end_; ++since_gain) {
      const int kept = tuning_.kept;
      const size_t at = any(products.size());
      try_change([&](std::vector<TunedStep>& choices) {
        for (const size_t step : {products[at], products[(at + 1) % products.size()]}) {
          TunedStep& choice = choices[step];
          if (any(3) != 0) choice.kernel = choices_[step][any(choices_[step].size())];
          if (any(3) == 0) choice.overlap.trigger = any(2) == 0 ? Trigger::at_start : Trigger::after_loads;
          if (any(4) == 0) put_spacing(kSpacings[any(std::size(kSpacings))], choice);
          if (any(4) == 0) choice.prefetch_bytes = kPrefetchBytes[any(std::size(kPrefetchBytes))];
          if (any(4) == 0) choice.hand_off_bytes = kHandOffBytes[any(std::size(kHandOffBytes))];
        }
      });
      if (tuning_.kept > kept) since_gain = 0;
    }
  }

  /// Between a step and the one before it: a trigger without a wait is nothing, and the other way round
  /// little.
  void visit_boundary(size_t step) {
    const size_t before = (step + tuning_.layer.size() - 1) % tuning_.layer.size();
    std::vector<Overlap> here, there;
    for (const Wait wait : kWaits) here.push_back(with_wait(tuning_.choices[step].overlap, wait));
    for (const Trigger trigger : kTriggers) {
      there.push_back(tuning_.choices[before].overlap);
      there.back().trigger = trigger;
    }
    prepare_kernels(step, std::span(&tuning_.choices[step].kernel, 1), here);
    prepare_kernels(before, std::span(&tuning_.choices[before].kernel, 1), there);
    for (const Wait wait : kWaits)
      for (const Trigger trigger : kTriggers)
        if ((wait == Wait::none) == (trigger == Trigger::never))
          try_change([&](std::vector<TunedStep>& choices) {
            choices[step].overlap = with_wait(choices[step].overlap, wait);
            choices[before].overlap.trigger = trigger;
          });
  }

  /// Was the overlap with the launch before it a gain only beside choices that are gone?
  void take_off(size_t step) {
    const size_t before = (step + tuning_.layer.size() - 1) % tuning_.layer.size();
    const auto off = [&](std::vector<TunedStep>& choices) {
      choices[step].overlap = with_wait(choices[step].overlap, Wait::none);
      choices[step].prefetch_bytes = 0;
      choices[before].overlap.trigger = Trigger::never;
    };
    if (tuning_.choices[step].overlap.wait != Wait::none) try_change(off, Keep::no_loss);
  }

  void visit_spacing(size_t step) {
    if (tuning_.choices[step].overlap.wait == Wait::none) return;
    std::vector<Overlap> overlaps(std::size(kSpacings), tuning_.choices[step].overlap);
    for (size_t i = 0; i < overlaps.size(); ++i) overlaps[i].spacing = kSpacings[i];
    prepare_kernels(step, std::span(&tuning_.choices[step].kernel, 1), overlaps);
    for (const Spacing spacing : kSpacings)
      try_change([&](std::vector<TunedStep>& choices) { put_spacing(spacing, choices[step]); });
  }

  const Lab& lab_;
  const ChainData& data_;
  LayerSpec spec_;
  const Workspace& workspace_;
  const Phase& phase_;
  Clock::time_point end_, wander_end_;
  std::vector<std::vector<Choice>> choices_;    // of each step
  std::vector<std::map<Kind, Choice>> firsts_;  // the model's first of each kind
  std::vector<TunedStep> recorded_;
  std::vector<Result<gemm::Kernel>> kernels_;
  std::vector<Result<packed::Kernel>> packed_kernels_;
  ChainTuning tuning_;
  Replay best_;
  double best_us_ = 0;
};

}  // namespace

void put_choices(std::span<const TunedStep> choices, std::vector<ChainStep>& steps) {
  if (choices.empty()) return;
  for (size_t i = 0; i < steps.size(); ++i) {
    put_choice(choices[i % choices.size()], steps[i]);
  }
  if (steps.front().overlap) steps.front().overlap->wait = Wait::none;
  if (steps.back().overlap) steps.back().overlap->trigger = Trigger::never;
}

TunedChain tuned_chain(const Lab& lab, const ChainTuning& tuning, const Times& times) {
  const bool gains = times.tuned_us < times.off_us * (1 - kGain);
  const std::string driver = lab.telemetry.driver_version();
  return {.gpu = lab.device.info().name,
          .sm_count = lab.device.info().sm_count,
          .steps = tuned_steps(tuning.layer, gains ? tuning.choices : tuning.alone),
          .us = gains ? times.tuned_us : times.off_us,
          .off_us = times.off_us,
          .name = tuning.name,
          .sluice = library_version(),
          .driver = driver.empty() ? "unknown" : driver,
          .date = utc_now()};
}

Result<ChainTuning> tune_chain(const Lab& lab, const ChainData& data, const TuneRequest& request,
                               const Workspace& workspace, const Phase& phase) {
  return Tuner(lab, data, request, workspace, phase).run();
}

}  // namespace sluice::bench
