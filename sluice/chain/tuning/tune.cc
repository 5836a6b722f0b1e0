// SPDX-License-Identifier: Apache-2.0
// Chain::guarded and Chain::tune, and the search's machine: chains of the caller's steps, captured and
// replayed in turn. A chain is guarded by timing it on the GPU where it runs. No model can guarantee that an
// overlap is not slower on an unseen layer: one of five models is slower with every overlap that is planned
// (docs/findings/even-grids.md).
#include <sluice/chain/tuning/tune.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include <sluice/chain/step.h>
#include <sluice/chain/tuning/outputs.h>
#include <sluice/chain/tuning/stand_in.h>
#include <sluice/plan/dense/tuned_choice.h>
#include <sluice/plan/packed/packed_cost_model.h>
#include <sluice/run/device/device_impl.h>
#include <sluice/run/ops/race.h>
#include <sluice/run/ops/replay_timer.h>
#include <sluice/run/records/record_store.h>
#include <sluice/spec/smem_room.h>
#include <sluice/try.h>

namespace sluice::tuning {
namespace {

constexpr size_t kFirstKernels = 20;      // from the top of the planner's ranking, of any kind
constexpr size_t kLeastOfKind = 6;        // kernels of each kind, however far down they rank
constexpr int kDeepRingBytes = 60 << 10;  // least bytes of codes in a CTA's rings
constexpr int kHalfOfRegisters = kSchedulersOfSm * kRegistersOfScheduler / 2;  // half an SM's registers

/// Whether two plans differ only in the CTAs promised an SM. Most such pairs are one kernel twice.
bool same_but_for_ctas(const Plan& x, const Plan& y) {
  KernelConfig other = y.config;
  other.ctas = x.config.ctas;
  return x.config.schedule == Schedule::narrow && x.config == other;
}

/// True unless the plan has two kernels. A chain uses such plans only if a caller asks for one
/// (sluice/chain.h).
bool fits_a_chain(const Plan& plan) {
  return plan.config.combine != Combine::separate;
}

KernelKind kind_of(const Plan& plan, const NarrowConfig& c) {
  const bool few_registers = threads_of(c) * packed::estimate_registers(c) <= kHalfOfRegisters;
  const bool half = plan.smem_bytes <= kBesideAlone && few_registers;
  if (c.warps * (c.stages - 1) * stage_code_bytes(c) >= kDeepRingBytes)
    return half ? KernelKind::deep_halves : KernelKind::deep;
  return half ? KernelKind::halves : KernelKind::wholes;
}

constexpr double kReplayUs = 500;  // short graphs leave time for more changes
constexpr double kMostPasses = 8;  // upper limit of passes through the steps in one graph

/// The chain's launches one after another, us.
double estimate_of(const ChainPlan& plan) {
  double us = 0;
  for (const PlannedStep& step : plan.steps) us += step.estimate_us;
  return us;
}

class GpuTimer final : public ChainTimer {
 public:
  /// `steps`: those of one pass, without overlap set by the caller.
  static Result<GpuTimer> create(const Device& device, std::span<const ChainStep> steps, const Tuning& tuning,
                                 PlanMemo& memo, double estimate_us) {
    SLUICE_TAKE(StreamHandle stream, StreamHandle::create(device));
    SLUICE_TAKE(ReplayTimer timer, ReplayTimer::create(device));
    GpuTimer made(device, tuning, memo, std::move(stream), std::move(timer));
    made.passes_ =
        static_cast<int>(std::clamp(std::ceil(kReplayUs / std::max(estimate_us, 1.0)), 1.0, kMostPasses));
    for (int pass = 0; pass < made.passes_; ++pass)
      made.steps_.insert(made.steps_.end(), steps.begin(), steps.end());
    Result<ChainOutputs> outputs = ChainOutputs::save(device, steps, made.stream_);
    if (outputs)
      made.outputs_ = *std::move(outputs);
    else
      made.why_no_outputs_ = outputs.error().message;
    return made;
  }

  double now_s() override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  /// Loads kernels, which stay for the whole search, so that a chain finds them. A failure shows when its
  /// chain is prepared.
  void expect(std::span<const Expected> next) override {
    std::vector<std::pair<ChainStep, StepPlan>> planned;
    std::vector<std::string> units;
    for (const Expected& expected : next) {
      ChainStep changed = tuning_.layer[expected.step];
      const auto step = step_of(changed);
      if (!step->is_launched() || step->own_overlap() || !step->put(expected.choice, changed)) continue;
      const auto plan =
          memo_.plan(changed, {false, device_.info(), {}, device_.records()}, expected.choice.overlap);
      if (!plan) continue;
      for (std::string& unit : step_of(changed)->units(*plan)) units.push_back(std::move(unit));
      planned.emplace_back(changed, *plan);
    }
    device_.impl().cache.get_all(units, device_.options().jobs, {});
    for (const auto& [step, plan] : planned)
      if (auto kernel = step_of(step)->prepare(device_, plan)) kernels_.push_back(*std::move(kernel));
  }

  Result<Raced> race(const LayerChoice& incumbent, const LayerChoice& candidate, int rounds) override {
    SLUICE_TAKE(const ChainGraph one, graph_of(incumbent));
    SLUICE_TAKE(const ChainGraph two, graph_of(candidate));
    const ChainGraph* both[] = {&one, &two};
    const auto turn = ops::race_turn();
    std::vector<double> us[2];
    SLUICE_TRY(for_each_turn(2, rounds, [&](size_t i) -> Result<void> {
      SLUICE_TAKE(const double took,
                  timer_.time(stream_.get(), [&] { return both[i]->replay(stream_.get()); }));
      us[i].push_back(took / passes_);
      return {};
    }));
    return Raced{quantiles_of(us[0]), quantiles_of(us[1])};
  }

  /// Replays the graph that race() timed, with the outputs restored to their initial contents, and compares
  /// the results with those of the plain chain.
  Result<void> check(const LayerChoice& candidate) override {
    if (!outputs_)
      return Error{ErrorCode::workspace,
                   "its results cannot be compared with those of the plain chain: " + why_no_outputs_};
    if (!outputs_->has_kept()) {
      SLUICE_TRY(run_from_start(tuning_.alone));
      SLUICE_TRY(outputs_->keep(stream_.get()));
    }
    SLUICE_TRY(run_from_start(candidate));
    return outputs_->check(stream_);
  }

 private:
  GpuTimer(const Device& device, const Tuning& tuning, PlanMemo& memo, StreamHandle stream, ReplayTimer timer)
      : device_(device), tuning_(tuning), memo_(memo), stream_(std::move(stream)), timer_(std::move(timer)) {}

  struct Captured {
    LayerChoice choices;
    ChainGraph graph;
  };

  Result<void> run_from_start(const LayerChoice& choices) {
    SLUICE_TAKE(const ChainGraph graph, graph_of(choices));
    SLUICE_TRY(outputs_->restore(stream_.get()));
    SLUICE_TRY(graph.replay(stream_.get()));
    return stream_.synchronize();  // the graph may be destroyed after this returns
  }

  /// Keeps the graphs of the last two different chains, because an incumbent is compared with many
  /// candidates, and a kept candidate becomes the incumbent.
  Result<ChainGraph> graph_of(const LayerChoice& choices) {
    for (size_t i = 0; i < captured_.size(); ++i)
      if (captured_[i] && captured_[i]->choices == choices) {
        std::swap(captured_[0], captured_[i]);
        return captured_[0]->graph;
      }
    StepChoices all;
    for (const StepChoices once = choices_of(tuning_, choices); all.size() < steps_.size();)
      all.insert(all.end(), once.begin(), once.end());
    SLUICE_TAKE(const ChainPlan plan, plan_chosen(steps_, device_.info(), {.overlap = ChainOverlap::off},
                                                  device_.records(), all, memo_));
    SLUICE_TAKE(const Chain chain, Chain::prepare(device_, plan));
    if (workspaces_.empty() || workspaces_.back().view().bytes < chain.workspace_bytes()) {
      // Graphs that are kept use the smaller ones.
      SLUICE_TAKE(Workspace workspace, Workspace::create(device_, chain.workspace_bytes()));
      workspaces_.push_back(std::move(workspace));
    }
    SLUICE_TAKE(const ChainGraph graph, ChainGraph::capture(chain, stream_.get(), workspaces_.back().view()));
    captured_[1] = std::move(captured_[0]);
    captured_[0] = Captured{choices, graph};
    return graph;
  }

  const Device& device_;
  const Tuning& tuning_;
  PlanMemo& memo_;
  StreamHandle stream_;
  ReplayTimer timer_;
  std::vector<ChainStep> steps_;  // all passes
  int passes_ = 1;
  std::vector<Workspace> workspaces_;
  std::array<std::optional<Captured>, 2> captured_;
  std::vector<std::any> kernels_;
  std::optional<ChainOutputs> outputs_;  // nothing: they could not be saved
  std::string why_no_outputs_;
};

Result<void> check_cold(std::span<const ChainStep> steps, const DeviceInfo& device) {
  std::set<const void*> seen;
  i64 bytes = 0;
  for (const ChainStep& step : steps)
    if (const StepRange weights = main_weights(step); seen.insert(weights.data).second)
      bytes += weights.bytes;
  if (bytes >= kLeastL2Times * device.l2_bytes) return {};
  return Error{ErrorCode::invalid_argument,
               "the steps have " + std::to_string(bytes / 1000000) + " MB of weights and must have " +
                   std::to_string(kLeastL2Times) + " times the " + std::to_string(device.l2_bytes / 1000000) +
                   " MB of L2, or the tuner would time what L2 holds: give it more layers"};
}

/// Returns the kernels to try for a step. A kernel that the caller chose stays.
Result<StepKernels> kernels_for(const ChainStep& step, const TunedStep& alone, const DeviceInfo& device) {
  if (!step_of(step)->may_have(alone, device)) return StepKernels{};
  return kernels_of(step, device);
}

}  // namespace

KernelKind kind_of(const Plan& plan) {
  const KernelConfig& c = plan.config;
  const bool half = plan.smem_bytes <= kBesideAlone;
  switch (c.schedule) {
    case Schedule::ping_pong:
    case Schedule::cooperative: return KernelKind::roles;
    case Schedule::plain: return KernelKind::plain;
    case Schedule::narrow: return kind_of(plan, narrow_of(c));
    case Schedule::strip:
      return half && math_groups(strip_of(c)) <= 2 ? KernelKind::halves : KernelKind::wholes;
    case Schedule::plain_wgmma:
    case Schedule::wide: return half ? KernelKind::halves : KernelKind::wholes;
  }
  return KernelKind::wholes;
}

Result<StepKernels> kernels_of(const ChainStep& step, const DeviceInfo& device) {
  StepKernels kernels;
  const auto* product = std::get_if<ProductStep>(&step.work);
  if (product == nullptr) return kernels;
  SLUICE_TAKE(const std::vector<Plan> ranked, gemm::candidates(product->problem, device));
  std::map<KernelKind, size_t> taken;
  const Plan* before = nullptr;
  for (const Plan& plan : ranked) {
    if (!fits_a_chain(plan)) continue;
    const bool again = before != nullptr && same_but_for_ctas(plan, *before);
    before = &plan;
    if (again) continue;
    size_t& of_kind = taken[kind_of(plan)];
    if (kernels.all.size() >= kFirstKernels && of_kind >= kLeastOfKind) continue;
    if (of_kind++ == 0) kernels.of_kinds[kind_of(plan)] = choice_of(plan);
    kernels.all.push_back(choice_of(plan));
  }
  return kernels;
}

Repeats find_repeats(std::span<const ChainStep> steps) {
  std::vector<StepRecipe> recipes;
  for (const ChainStep& step : steps) recipes.push_back(recipe_of(step));
  const auto alike = [&](size_t x, size_t y) {
    return recipes[x] == recipes[y] && step_of(steps[x])->shares_plan(*step_of(steps[y]));
  };
  Repeats best{0, steps.size(), steps.size()};
  size_t covered = 0;
  for (size_t period = 1; period <= steps.size() / 2; ++period)
    for (size_t begin = 0; begin + 2 * period <= steps.size();) {
      size_t end = begin + period;
      while (end < steps.size() && alike(end, end - period)) ++end;
      // An incomplete repetition has another neighbour at its end.
      const size_t whole = (end - begin) / period * period;
      if (whole >= 2 * period && whole > covered) {
        best = {begin, period, begin + whole};
        covered = whole;
      }
      begin = std::max(begin + 1, end - period);
    }
  if (2 * covered < steps.size()) return {0, steps.size(), steps.size()};
  return best;
}

StepChoices choices_of(const Tuning& tuning, const LayerChoice& layer) {
  StepChoices choices = layer == tuning.alone ? tuning.outside_alone : tuning.outside;
  for (size_t i = 0; i < choices.size(); ++i)
    if (tuning.repeats.holds(i)) choices[i] = layer[tuning.repeats.place_of(i)];
  return choices;
}

TunedChain record_of(const Device& device, const Tuning& tuning, bool gains, double us, double off_us) {
  const std::string name = "chain of " + std::to_string(tuning.layer.size()) + " steps, " +
                           std::to_string(tuning.steps.size()) + " in all";
  return {.gpu = device.info().name,
          .sm_count = device.info().sm_count,
          .steps = tuned_steps(tuning.layer, gains ? tuning.found.choices : tuning.alone),
          .us = gains ? us : off_us,
          .off_us = off_us,
          .name = name,
          .sluice = library_version(),
          .driver = driver_version(device),
          .date = utc_now()};
}

Result<Tuning> tune_steps(const Device& device, std::span<const ChainStep> steps, const ChainPlan& known,
                          PlanMemo& memo, const TuneRequest& request) {
  const DeviceInfo& info = device.info();
  std::vector<ChainStep> plain(steps.begin(), steps.end());
  for (ChainStep& step : plain) {
    step.overlap.reset();
    step.hand_off_bytes.reset();
    step.prefetch_bytes.reset();
  }
  ChainOptions planning = request.tuning.start;
  std::optional<ChainPlan> own;  // planned with ChainOverlap::tuned, if the caller asks for another overlap
  if (planning.overlap != ChainOverlap::tuned) {
    planning.overlap = ChainOverlap::tuned;
    // An optional candidate: if its planning fails, the search goes on without it.
    if (Result<ChainPlan> found = plan_chain(steps, info, planning, device.records(), memo))
      own = *std::move(found);
  }
  const ChainPlan& planned = own ? *own : known;
  SLUICE_TAKE(const ChainPlan alone,
              plan_chain(plain, info, {.overlap = ChainOverlap::off}, device.records(), memo));
  if (request.cold) SLUICE_TRY(check_cold(steps, info));

  Tuning tuning{.steps = plain, .repeats = find_repeats(plain)};
  SearchSpace space;
  const auto choice = [&](const ChainPlan& plan, size_t i) {
    TunedStep made = sluice::choice_of(plan, plan.steps[i]);
    const ChainStep& step = plan.steps[i].step;  // with a record's bytes
    if (&plan != &alone && !step.hand_off_bytes) made.hand_off_bytes = request.tuning.start.hand_off_bytes;
    if (&plan != &alone && !step.prefetch_bytes) made.prefetch_bytes = request.tuning.start.prefetch_bytes;
    if (!step_of(plain[i])->may_have(made, info)) made.kernel.reset();
    return made;
  };
  for (size_t i = 0; i < plain.size(); ++i) {
    tuning.outside.push_back(choice(known, i));
    tuning.outside_alone.push_back(choice(alone, i));
  }
  // The second repetition has both neighbours.
  const Repeats& r = tuning.repeats;
  const size_t first = r.begin + (r.end - r.begin > r.period ? r.period : 0);
  for (size_t i = first; i < first + r.period; ++i) {
    tuning.layer.push_back(plain[i]);
    space.names.push_back(step_name(plain[i], i));
    space.weight_bytes.push_back(alone.steps[i].weight_bytes);
    space.alone.push_back(choice(alone, i));
    space.asked.push_back(choice(known, i));
    space.planned.push_back(choice(planned, i));
    // The chain's last launch never triggers, but that of an earlier repetition does.
    if (i + 1 == plain.size() && i >= r.begin + r.period) {
      space.asked.back().overlap.trigger = known.steps[i - r.period].overlap.trigger;
      space.planned.back().overlap.trigger = planned.steps[i - r.period].overlap.trigger;
    }
    SLUICE_TAKE(StepKernels kernels, kernels_for(plain[i], space.alone.back(), info));
    space.kernels.push_back(std::move(kernels));
  }
  tuning.alone = space.alone;
  const RelaxedCapture whatever_is_captured(*device.impl().api);
  SLUICE_TAKE(GpuTimer timer, GpuTimer::create(device, plain, tuning, memo, estimate_of(alone)));
  SearchRequest search{.budget_s = request.tuning.seconds};
  if (request.tuning.progress) search.progress = request.tuning.progress;
  if (request.tuning.trials)
    search.log = [&](const Trial& trial) {
      request.tuning.trials(to_json(TunedTrial{.gpu = info.name,
                                               .axis = trial.axis,
                                               .what = trial.what,
                                               .incumbent_us = trial.us.incumbent.median,
                                               .candidate_us = trial.us.candidate.median,
                                               .candidate_p90_us = trial.us.candidate.p90,
                                               .kept = trial.kept,
                                               .steps = tuned_steps(tuning.layer, trial.choices)}));
    };
  SLUICE_TAKE(tuning.found, search_chain(timer, space, search));
  return tuning;
}

}  // namespace sluice::tuning

namespace sluice {
namespace {

/// The chain that a search finds faster than the one with the overlap off, or that one. Off stays unless
/// another takes 1 % less and is faster in nine rounds of ten.
Result<Chain> searched(const Device& device, std::span<const ChainStep> steps, const ChainPlan& asked,
                       PlanMemo& memo, const tuning::TuneRequest& request) {
  const ChainOptions& start = request.tuning.start;
  if (start.smem_limit > 0 || start.most_stages > 0)
    return refused("smem_limit and most_stages choose kernels, and so does a tuner: leave them out");
  SLUICE_TAKE(const std::vector<ChainStep> filled, tuning::with_stand_ins(device, steps));
  SLUICE_TAKE(const tuning::Tuning tuning, tune_steps(device, filled, asked, memo, request));
  const auto& [off, found] = tuning.found.confirmed;
  const bool gains = is_safely_faster(found, off);
  const double share = static_cast<double>(tuning.repeats.period) / static_cast<double>(steps.size());
  // Without a folder, or one that cannot be written to, the next process tunes again.
  if (request.tuning.keep)
    static_cast<void>(
        keep_record(device, record_of(device, tuning, gains, share * found.median, share * off.median)));
  std::vector<ChainStep> found_steps = tuning.steps;
  for (size_t i = 0; i < steps.size(); ++i)
    if (step_of(steps[i])->is_gap()) found_steps[i] = steps[i];
  SLUICE_TAKE(const ChainPlan plan,
              plan_chosen(found_steps, device.info(), {.overlap = ChainOverlap::off}, device.records(),
                          choices_of(tuning, gains ? tuning.found.choices : tuning.alone), memo));
  return Chain::prepare(device, plan);
}

}  // namespace

Result<Chain> Chain::guarded(const Device& device, std::span<const ChainStep> steps,
                             const ChainOptions& options, const gemm::Progress& progress) {
  // If the chain cannot be planned or prepared as requested, that is an error, whatever a search would find.
  PlanMemo memo;
  SLUICE_TAKE(const ChainPlan plan, plan_chain(steps, device.info(), options, device.records(), memo));
  SLUICE_TAKE(Chain asked, prepare(device, plan, progress));
  if (options.overlap == ChainOverlap::off || asked.kernels() == 0) return asked;
  return searched(device, steps, plan, memo,
                  {.tuning = {.seconds = 0, .start = options, .keep = false}, .cold = false});
}

Result<Chain> Chain::tune(const Device& device, std::span<const ChainStep> steps, const ChainTuning& tuning) {
  if (!(tuning.seconds >= 0))
    return refused("seconds = " + std::to_string(tuning.seconds) + " must not be negative");
  PlanMemo memo;
  SLUICE_TAKE(const ChainPlan plan, plan_chain(steps, device.info(), tuning.start, device.records(), memo));
  SLUICE_TAKE(Chain asked, prepare(device, plan));
  if (asked.kernels() == 0) return asked;
  return searched(device, steps, plan, memo, {.tuning = tuning, .cold = true});
}

}  // namespace sluice
