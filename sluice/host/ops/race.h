// SPDX-License-Identifier: Apache-2.0
// A race: the likeliest plans of a problem are prepared and timed in turn, and the fastest is returned. No
// model ranks better than the noise of what it was fitted to, and some kernels are slow in some processes
// alone. A few milliseconds at a problem's first call find both
// (docs/decisions/0023-a-race-at-the-first-call.md). Beside the functions of engine.h and kept.h an op that
// races defines:
//   candidates   the plans of a problem, best estimate first
//   family_of    a number that plans of the same kind of kernel share
//   args_at      arguments with these pointers, whose scalars read every operand
#pragma once

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>

#include <sluice/host/driver/capture_mode.h>
#include <sluice/host/driver/events.h>
#include <sluice/host/driver/memory.h>
#include <sluice/host/ops/engine.h>
#include <sluice/host/quantiles.h>
#include <sluice/records.h>

namespace sluice::ops {

/// Plans with estimates up to so many times the best one's may race for their family.
inline constexpr double kRacingEstimate = 1.1;
/// Most bytes of the operands of a race. Larger problems keep the model's pick.
inline constexpr i64 kMostRaceBytes = i64{4} << 30;

/// Operands of a problem on the device, several times over, so that L2 does not hold what a launch reads.
class RaceMemory {
 public:
  /// Fills all of it with small numbers. Errors: invalid_size (more than kMostRaceBytes), driver (memory).
  static Result<RaceMemory> create(const Device& device, const Operands& operands, Stream stream);
  int copies() const { return copies_; }
  /// Pointers to the operands of one copy; null where the table has none.
  Pointers at(int copy) const;

 private:
  DeviceBuffer memory_;
  std::array<i64, Operands::kMost> offsets_{};  // below 0: not used
  i64 copy_bytes_ = 0;
  int copies_ = 0;
};

/// Enqueues one launch with the operands of a copy.
using RaceCall = std::function<Result<void>(int copy, Stream stream)>;
struct Racer {
  RaceCall call;
  double estimate_us = 0;  // the first racer's sets the number of launches of a round
};
/// Microseconds a launch of each round.
using RaceTimes = std::vector<double>;
/// Times the racers in turn, as graphs of launches that go from copy to copy. A racer whose launch is refused
/// has no times. Errors: the first racer's; driver.
Result<std::vector<RaceTimes>> race_times(const Device& device, Stream stream, std::span<const Racer> racers,
                                          int copies);

/// Returns `most` of the ranked plans: the best, the best of each other family whose estimate is near it, and
/// then the next best. In their order.
template <class Op>
std::vector<typename Op::Plan> racing(const std::vector<typename Op::Plan>& ranked, int most) {
  if (ranked.empty() || most < 1) return {};
  std::set<size_t> chosen{0};
  std::set<int> families{Op::family_of(ranked[0])};
  const double limit = kRacingEstimate * Op::estimate_us(ranked[0]);
  const auto full = [&] { return chosen.size() >= static_cast<size_t>(most); };
  for (size_t i = 1; i < ranked.size() && !full(); ++i)
    if (Op::estimate_us(ranked[i]) <= limit && families.insert(Op::family_of(ranked[i])).second)
      chosen.insert(i);
  for (size_t i = 1; i < ranked.size() && !full(); ++i) chosen.insert(i);
  std::vector<typename Op::Plan> plans;
  for (const size_t i : chosen) plans.push_back(ranked[i]);
  return plans;
}

/// Held while memory is filled and plans are timed: two races at once would time each other.
std::unique_lock<std::mutex> race_turn();

/// Races `most` plans of the problem. The winner has its time. If there was a second plan, it counts as
/// recorded and is kept among the user's records, if that is possible. Plans other than the first leave the
/// race where they cannot be prepared or launched. Errors: those of candidates(), RaceMemory and
/// race_times(); the first plan's.
template <class Op>
Result<typename Op::Plan> race(const Device& device, const typename Op::Problem& problem, int most) {
  SLUICE_TAKE(const auto ranked, Op::candidates(problem, device.info()));
  if (ranked.empty()) return Error{ErrorCode::internal, "the problem has no plan to race"};
  const RelaxedCapture whatever_is_captured(*device.impl().api);
  const auto made = prepare<Op>(device, racing<Op>(ranked, most));
  if (!made[0]) return made[0].error();
  std::vector<typename Op::Handle> kernels;
  i64 workspace_bytes = 0;
  for (const auto& kernel : made) {
    if (!kernel) continue;
    kernels.push_back(*kernel);
    if constexpr (requires { kernel->impl().plan.workspace_bytes; })
      workspace_bytes = std::max(workspace_bytes, kernel->impl().plan.workspace_bytes);
  }
  SLUICE_TAKE(const auto operands, Op::operands_of(made[0]->impl().plan.problem));
  const auto turn = race_turn();
  SLUICE_TAKE(const StreamHandle stream, StreamHandle::create(device));
  SLUICE_TAKE(const RaceMemory memory, RaceMemory::create(device, operands, stream.get()));
  SLUICE_TAKE(const Workspace workspace, Workspace::create(device, workspace_bytes));
  std::vector<Racer> racers;
  for (const auto& kernel : kernels)
    racers.push_back({.call =
                          [&, kernel](int copy, Stream on) {
                            auto args = Op::args_at(kernel.impl().plan.problem, memory.at(copy));
                            if constexpr (requires { Op::with_workspace(args, workspace.view()); })
                              args = Op::with_workspace(args, workspace.view());
                            return launch<Op>(kernel.impl(), args, on);
                          },
                      .estimate_us = Op::estimate_us(kernel.impl().plan)});
  SLUICE_TAKE(const auto times, race_times(device, stream.get(), racers, memory.copies()));
  size_t fastest = 0;
  for (size_t i = 1; i < times.size(); ++i)
    if (!times[i].empty() && quantile(times[i], 0.5) < quantile(times[fastest], 0.5)) fastest = i;
  typename Op::Plan won = kernels[fastest].impl().plan;
  won.measured_us = quantile(times[fastest], 0.5);
  const auto has_time = [](const RaceTimes& racer) { return !racer.empty(); };
  if (std::count_if(times.begin(), times.end(), has_time) < 2) return won;  // nothing was compared
  won.source = PlanSource::record;
  // Without a folder, or one that cannot be written to, the next process races again.
  static_cast<void>(keep_record(device.options(), device.info(), won, quantile(times[0], 0.5),
                                "a race of " + std::to_string(times.size()) + " plans"));
  return won;
}

/// Returns whether a race could tell anything: there are products, and nobody measured them yet.
template <class Op>
bool may_race(const typename Op::Plan& planned) {
  return planned.source == PlanSource::model && planned.problem.k > 0 && !Op::is_empty(planned.problem);
}

/// race() for callers: checks the arguments. A plan that nothing can be said of is returned as it is.
template <class Op>
Result<typename Op::Plan> race_checked(const Device& device, const typename Op::Problem& problem, int most) {
  if (most < 1 || most > kMostRacers)
    return Error{ErrorCode::invalid_argument, "candidates = " + std::to_string(most) + " must be in 1.." +
                                                  std::to_string(kMostRacers) +
                                                  ": pass 3, which finds most of the gain"};
  SLUICE_TAKE(const auto planned, Op::plan_for(device, problem));
  return may_race<Op>(planned) ? race<Op>(device, planned.problem, most) : planned;
}

/// Returns the plan that run() uses in the place of `planned`: the winner of a race, if the device's options
/// ask for one and the plan is the model's. A race that fails leaves the model's pick.
template <class Op>
typename Op::Plan raced(const Device& device, const typename Op::Plan& planned) {
  if constexpr (requires { Op::family_of(planned); }) {
    const int most = device.options().race;
    if (most > 1 && may_race<Op>(planned))
      if (auto won = race<Op>(device, planned.problem, most)) return *std::move(won);
  }
  return planned;
}

}  // namespace sluice::ops
