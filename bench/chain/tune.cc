// SPDX-License-Identifier: Apache-2.0
// The search's machine: chains of the bench's layers, captured and replayed in turn.
#include "bench/chain/tune.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <sluice/tools.h>
#include <sluice/try.h>

#include "bench/errors.h"
#include "bench/measure.h"

namespace sluice::bench {
namespace {

constexpr int kGraphPasses = 2;  // through the layers in one graph: short graphs leave time for more changes

class GpuTimer final : public ChainTimer {
 public:
  GpuTimer(const Lab& lab, const LayerSpec& spec, const ChainData& data, const Workspace& workspace)
      : lab_(lab), spec_(spec), workspace_(workspace), steps_(steps_of(spec, data.memory())) {}

  double now_s() override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  /// Loads kernels, which stay for the whole search, so that a chain finds them. A failure shows when its
  /// chain is prepared.
  void expect(size_t step, std::span<const TunedStep> choices) override {
    std::vector<Plan> dense;
    std::vector<packed::Plan> packed;
    const DeviceInfo& device = lab_.device.info();
    for (const TunedStep& choice : choices) {
      ChainStep changed = steps_[step];
      if (!put_choice(choice, changed)) continue;
      if (auto* s = std::get_if<ProductStep>(&changed.work)) {
        s->overrides.overlap = choice.overlap;
        if (const auto plan = gemm::plan(s->problem, device, s->overrides)) dense.push_back(*plan);
      }
      if (auto* s = std::get_if<PackedStep>(&changed.work)) {
        s->overrides.overlap = choice.overlap;
        if (const auto plan = packed::plan(s->problem, device, s->overrides)) packed.push_back(*plan);
      }
    }
    for (Result<gemm::Kernel>& kernel : gemm::prepare(lab_.device, dense))
      if (kernel) dense_kernels_.push_back(*std::move(kernel));
    for (Result<packed::Kernel>& kernel : packed::prepare(lab_.device, packed))
      if (kernel) packed_kernels_.push_back(*std::move(kernel));
  }

  Result<Raced> race(const LayerChoice& incumbent, const LayerChoice& candidate, int rounds) override {
    SLUICE_TAKE(const Replay one, replay_of(incumbent));
    SLUICE_TAKE(const Replay two, replay_of(candidate));
    const Replay both[] = {one, two};
    SLUICE_TAKE(const std::vector<Timed> times, time_in_turn(lab_, both, {.count = rounds, .rest_ms = 0}));
    return Raced{spread_of(times[0].us), spread_of(times[1].us)};
  }

 private:
  struct Captured {
    LayerChoice choices;
    Replay replay;
  };

  /// Keeps the graphs of the last two different chains: an incumbent meets many candidates, and a kept
  /// candidate is the next incumbent.
  Result<Replay> replay_of(const LayerChoice& choices) {
    for (size_t i = 0; i < captured_.size(); ++i)
      if (captured_[i] && captured_[i]->choices == choices) {
        std::swap(captured_[0], captured_[i]);
        return captured_[0]->replay;
      }
    std::vector<ChainStep> steps = steps_;
    put_choices(choices, steps);
    SLUICE_TAKE(const Chain chain, Chain::prepare(lab_.device, steps, {.overlap = ChainOverlap::off}));
    SLUICE_TAKE(const ChainGraph graph, ChainGraph::capture(chain, lab_.stream.get(), workspace_.view()));
    captured_[1] = std::move(captured_[0]);
    captured_[0] = Captured{choices,
                            {.launch = [graph](Stream stream) { return graph.replay(stream); },
                             .launches = spec_.layers * spec_.passes}};
    return captured_[0]->replay;
  }

  const Lab& lab_;
  const LayerSpec& spec_;
  const Workspace& workspace_;
  const std::vector<ChainStep> steps_;  // all layers'
  std::array<std::optional<Captured>, 2> captured_;
  std::vector<gemm::Kernel> dense_kernels_;
  std::vector<packed::Kernel> packed_kernels_;
};

Result<void> check_size(const LayerSpec& spec, const DeviceInfo& device) {
  const i64 bytes = spec.layers * weight_bytes(spec), l2 = device.l2_bytes;
  if (spec.layers >= kLeastTunedLayers && bytes >= kLeastL2Times * l2) return {};
  return bad_argument(
      "{} layers have {:.0f} MB of weights: the tuner needs at least {} layers, and {} times the {:.0f} MB "
      "of L2, or it would time what L2 holds",
      spec.layers, static_cast<double>(bytes) / 1e6, kLeastTunedLayers, kLeastL2Times,
      static_cast<double>(l2) / 1e6);
}

/// The steps after which all repeat: fewer than a layer's if it is one product four times. Equal steps must
/// have equal choices, or a record could not tell them apart.
size_t period(std::span<const ChainStep> layer) {
  for (size_t steps = 1; steps < layer.size(); ++steps) {
    bool again = layer.size() % steps == 0;
    for (size_t i = steps; again && i < layer.size(); ++i)
      again = recipe_of(layer[i]) == recipe_of(layer[i - steps]);
    if (again) return steps;
  }
  return layer.size();
}

/// The layer in the middle, which has both neighbours.
struct MiddleLayer {
  std::vector<ChainStep> steps;
  SearchSpace space;
};
Result<MiddleLayer> middle_layer(const Lab& lab, const LayerSpec& spec, const ChainData& data) {
  const std::vector<ChainStep> all = steps_of(spec, data.memory());
  const size_t count = all.size() / static_cast<size_t>(spec.layers * spec.passes);
  const size_t first = all.size() > count ? count : 0;
  const DeviceInfo& device = lab.device.info();
  SLUICE_TAKE(const ChainPlan alone,
              plan_chain(all, device, {.overlap = ChainOverlap::off}, lab.device.records()));
  SLUICE_TAKE(const ChainPlan known, plan_chain(all, device, {}, lab.device.records()));
  MiddleLayer layer;
  const size_t end = first + period(std::span(all).subspan(first, count));
  for (size_t i = first; i < end; ++i) {
    layer.steps.push_back(all[i]);
    layer.space.names.push_back(all[i].name);
    layer.space.alone.push_back(choice_of(alone, alone.steps[i]));
    layer.space.recorded.push_back(choice_of(known, known.steps[i]));
    SLUICE_TAKE(StepKernels kernels, kernels_of(all[i], device));
    layer.space.kernels.push_back(std::move(kernels));
  }
  return layer;
}

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
  const bool gains = times.tuned_us < times.off_us * (1 - kLeastGain);
  const std::string driver = lab.telemetry.driver_version();
  return {.gpu = lab.device.info().name,
          .sm_count = lab.device.info().sm_count,
          .steps = tuned_steps(tuning.layer, gains ? tuning.found.choices : tuning.alone),
          .us = gains ? times.tuned_us : times.off_us,
          .off_us = times.off_us,
          .name = tuning.name,
          .sluice = library_version(),
          .driver = driver.empty() ? "unknown" : driver,
          .date = utc_now()};
}

Result<ChainTuning> tune_chain(const Lab& lab, const ChainData& data, const TuneRequest& request,
                               const Workspace& workspace, const Phase& phase) {
  LayerSpec spec = fused(data.spec(), request.fusion);
  spec.passes = std::min(spec.passes, kGraphPasses);
  SLUICE_TRY(check_size(spec, lab.device.info()));
  SLUICE_TAKE(const MiddleLayer layer, middle_layer(lab, spec, data));
  GpuTimer timer(lab, spec, data, workspace);
  SLUICE_TAKE(Found found, search_chain(timer, layer.space, request.budget_s, phase));
  return ChainTuning{
      .found = std::move(found), .alone = layer.space.alone, .layer = layer.steps, .name = name_of(spec)};
}

}  // namespace sluice::bench
