// SPDX-License-Identifier: Apache-2.0
// The guard of a chain. No model can promise that an overlap is no loss on an unseen layer. Some milliseconds
// of replays can: one of five models is slower with every overlap that is planned
// (docs/findings/even-grids.md).
#include <algorithm>

#include <sluice/chain/chain.h>

namespace sluice {
namespace {

constexpr double kLeastGain = 0.01;
constexpr double kShareOfRounds = 0.9;

/// The chain's launches one after another, us.
double estimate_of(const ChainPlan& plan) {
  double us = 0;
  for (const PlannedStep& step : plan.steps) us += step.estimate_us;
  return us;
}

}  // namespace

bool is_safely_faster(const ops::RaceTimes& times, const ops::RaceTimes& off) {
  const auto rank = static_cast<size_t>(kShareOfRounds * static_cast<double>(times.size() - 1));
  const double middle = ops::median_of(off);
  return ops::median_of(times) <= (1 - kLeastGain) * middle && times[rank] < middle;
}

Result<Chain> Chain::guarded(const Device& device, std::span<const ChainStep> steps,
                             const ChainOptions& options, const gemm::Progress& progress) {
  std::vector<ChainStep> alone(steps.begin(), steps.end());
  for (ChainStep& step : alone) step.overlap.reset();
  ChainOptions by_memory = options;
  by_memory.spacing = Spacing::memory;
  struct Way {
    std::span<const ChainStep> steps;
    ChainOptions options;
  };
  std::vector<Way> ways = {{alone, {.overlap = ChainOverlap::off}}};
  if (options.overlap != ChainOverlap::off) {
    ways.push_back({steps, options});
    if (options.spacing == Spacing::even) ways.push_back({steps, by_memory});
  }
  std::vector<Chain> chains;
  i64 workspace_bytes = 0;
  const RelaxedCapture whatever_is_captured(*device.impl().api);
  for (const Way& way : ways) {
    SLUICE_TAKE(Chain chain, prepare(device, way.steps, way.options, progress));
    workspace_bytes = std::max(workspace_bytes, chain.workspace_bytes());
    chains.push_back(std::move(chain));
  }
  if (chains.size() == 1 || chains[0].kernels() == 0) return chains.back();
  const auto turn = ops::race_turn();
  SLUICE_TAKE(const StreamHandle stream, StreamHandle::create(device));
  SLUICE_TAKE(const Workspace workspace, Workspace::create(device, workspace_bytes));
  std::vector<ops::Racer> racers;
  for (const Chain& chain : chains)
    racers.push_back({.call = [&](int, Stream on) { return chain.enqueue(on, workspace.view()); },
                      .estimate_us = estimate_of(chains[0].plan())});
  SLUICE_TAKE(const std::vector<ops::RaceTimes> times, ops::race_times(device, stream.get(), racers, 1));
  size_t best = 0;
  for (size_t i = 1; i < chains.size(); ++i)
    if (!times[i].empty() && is_safely_faster(times[i], times[0]) &&
        ops::median_of(times[i]) < ops::median_of(times[best]))
      best = i;
  return chains[best];
}

}  // namespace sluice
