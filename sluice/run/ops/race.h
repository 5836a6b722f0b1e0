// SPDX-License-Identifier: Apache-2.0
// A race: the likeliest plans of a problem are prepared, compared with each other and timed in turn. The
// model's pick stays unless another is safely faster (quantiles.h). No model ranks better than the noise of
// what it was fitted to, and some kernels are slow in some processes alone
// (docs/decisions/0023-a-race-at-the-first-call.md); what is kept is in race_results.h. Nothing here uses the
// legacy stream or ends a capture of another thread. Beside the functions of engine.h and kept.h an op that
// races defines:
//   candidates   the plans of a problem, best estimate first
//   family_of    a number that plans of the same kind of kernel share
//   tile_family_of  a number that plans of the same kind and the same tile share
//   args_at      arguments with these pointers, whose scalars read every operand
//   sums_share   the share of a result that the tensor cores' own sums may lose
#pragma once

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>
#include <unordered_set>

#include <sluice/quantiles.h>
#include <sluice/run/driver/capture_mode.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/memory.h>
#include <sluice/run/ops/compare.h>
#include <sluice/run/ops/engine.h>
#include <sluice/run/ops/problem_key.h>
#include <sluice/run/ops/race/layers.h>
#include <sluice/run/ops/race_results.h>
#include <sluice/spec/work_split.h>

namespace sluice::ops {

/// A plan may race as the first of its family if its estimate is at most this multiple of the best one's.
inline constexpr double kRacingEstimate = 1.1;
/// Most bytes of the operands of a race. Larger problems keep the model's pick.
inline constexpr i64 kMostRaceBytes = i64{4} << 30;
/// A race that nobody asked for takes at most this share of the free memory, so that an allocation of the
/// caller's beside it does not fail.
inline constexpr double kFreeShare = 1.0 / 8;
/// Rounds of one kernel repeat closer than this if the GPU does nothing else. Of 1,881 timings on record,
/// made on idle GPUs, 1 % have a wider spread on one side of the median; work beside a race doubles rounds.
inline constexpr double kSteady = 1.05;

/// Operands of a problem on the device, several times over, so that L2 does not hold what a launch reads; and
/// room for a result that is kept.
class RaceMemory {
 public:
  /// Decides how much is needed, and allocates nothing. Error invalid_size: more than `most_bytes`.
  static Result<RaceMemory> sized(const Device& device, const Operands& operands, double sums_share,
                                  i64 most_bytes = kMostRaceBytes);
  /// Allocates it, fills all of it with numbers near 1, in `stream`, and waits for that. Error driver.
  Result<void> allocate(const Device& device, const Operands& operands, const StreamHandle& stream);
  /// Writes an operand of every copy, in `stream`, and waits for that.
  Result<void> write(int operand, std::span<const int> values, const StreamHandle& stream) const;
  int copies() const { return copies_; }
  /// Pointers to the operands of one copy; null where the table has none.
  Pointers at(int copy) const;

  /// Makes the first copy's result what it was before any launch.
  Result<void> renew_result(Stream stream) const;
  /// Saves the first copy's result, with which later results are compared.
  Result<void> keep_result(Stream stream) const;
  /// The kept result and the first copy's, and how far they may be apart.
  ResultPair results() const;
  const Tolerance& tolerance() const { return tolerance_; }

 private:
  i64 all_bytes() const;
  const void* address(i64 offset) const { return static_cast<const u8*>(memory_.data()) + offset; }

  DeviceBuffer memory_;
  std::array<i64, Operands::kMost> offsets_{};  // below 0: not used
  i64 copy_bytes_ = 0;
  int copies_ = 0;
  ResultPair result_{};  // type and shape of a result
  i64 result_offset_ = 0, result_bytes_ = 0, kept_offset_ = 0, fresh_offset_ = 0;
  Tolerance tolerance_{};
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

/// Returns the racer that takes the first one's place, or the first: going down the list, each that is safely
/// faster than the one chosen so far. A racer without times does not win.
size_t winner_of(std::span<const RaceTimes> times);
/// Returns whether other work was on the GPU while these rounds of one racer were timed.
bool is_disturbed(const RaceTimes& times);
/// Launches each racer once and returns which of them may win. If results differ, the side of the first racer
/// stays, unless more than half of all racers agree on another result: then the first is wrong, and leaves.
/// Errors: the first racer's; toolchain and driver (the comparison).
Result<std::vector<bool>> agreeing(const Device& device, std::span<const Racer> racers,
                                   const RaceMemory& memory, const StreamHandle& stream);

/// Returns `most` of the ranked plans: the best, the hinted one, and the best of each other family whose
/// estimate is near the best. Then follow the best of each other tile family, and the next best. They are in
/// their order; a hint that is not among them comes second.
template <class Op>
std::vector<typename Op::Plan> racing(const std::vector<typename Op::Plan>& ranked, int most,
                                      const std::optional<typename Op::Plan>& hint = {}) {
  if (ranked.empty() || most < 1) return {};
  std::set<size_t> chosen{0};
  std::set<int> families{Op::family_of(ranked[0])};
  std::set<i64> tiles{Op::tile_family_of(ranked[0])};
  std::optional<typename Op::Plan> stranger;
  if (hint && most > 1) {
    const auto same = [&](const auto& plan) { return Op::choice_of(plan) == Op::choice_of(*hint); };
    const auto found = std::find_if(ranked.begin(), ranked.end(), same);
    if (found != ranked.end())
      chosen.insert(static_cast<size_t>(found - ranked.begin()));
    else
      stranger = hint;
    families.insert(Op::family_of(*hint));
    tiles.insert(Op::tile_family_of(*hint));
  }
  const double limit = kRacingEstimate * Op::estimate_us(ranked[0]);
  const auto full = [&] { return chosen.size() + (stranger ? 1 : 0) >= static_cast<size_t>(most); };
  const auto is_near = [&](size_t i) { return Op::estimate_us(ranked[i]) <= limit; };
  for (size_t i = 1; i < ranked.size() && !full(); ++i)
    if (is_near(i) && families.insert(Op::family_of(ranked[i])).second) {
      chosen.insert(i);
      tiles.insert(Op::tile_family_of(ranked[i]));
    }
  for (size_t i = 1; i < ranked.size() && !full(); ++i)
    if (is_near(i) && tiles.insert(Op::tile_family_of(ranked[i])).second) chosen.insert(i);
  for (size_t i = 1; i < ranked.size() && !full(); ++i) chosen.insert(i);
  std::vector<typename Op::Plan> plans;
  for (const size_t i : chosen) plans.push_back(ranked[i]);
  if (stranger) plans.insert(plans.begin() + 1, *stranger);
  return plans;
}

/// Locked while memory is filled and plans are timed, because two races at once would disturb each other's
/// times.
std::unique_lock<std::mutex> race_turn();

/// The plan that a book makes of the problem, if that is a record's.
template <class Op>
std::optional<typename Op::Plan> plan_of_record(const Device& device, const typename Op::Problem& problem,
                                                const RecordBook& book) {
  if (book.size() == 0) return std::nullopt;
  const auto plan = Op::plan(problem, device.info(), {}, book);
  return plan && plan->source == PlanSource::record ? std::optional(*plan) : std::nullopt;
}

/// Returns the bytes of workspace that a plan needs.
template <class Plan>
i64 workspace_of(const Plan& plan) {
  if constexpr (requires { plan.workspace_bytes; })
    return plan.workspace_bytes;
  else
    return 0;
}

/// Times `most` plans of the problem that need at most `workspace_limit` bytes, and returns the winner with
/// its time. If another process has measured the problem on this card in the meantime, its choice is returned
/// and nothing is timed. The choice of another card, driver or version is timed too. If there was a second
/// plan, the winner counts as recorded and is stored (race_results.h). Plans other than the first are dropped
/// if they cannot be prepared or launched, or if their results differ (agreeing()). If other work was on the
/// GPU (is_disturbed), the first plan stays, counts as the model's, and nothing is stored. Errors: those of
/// candidates(), RaceMemory (more than `most_bytes`), agreeing() and race_times(); the first plan's.
template <class Op>
Result<typename Op::Plan> race(const Device& device, const typename Op::Problem& problem, int most,
                               i64 workspace_limit = kWorkspaceLimit, i64 most_bytes = kMostRaceBytes) {
  using Plan = typename Op::Plan;
  const KnownResults known = known_results(device, problem);
  const auto fits = [&](const Plan& plan) { return workspace_of(plan) <= workspace_limit; };
  if (const auto decided = plan_of_record<Op>(device, problem, known.decision); decided && fits(*decided))
    return *decided;
  SLUICE_TAKE(auto ranked, Op::candidates(problem, device.info()));
  std::erase_if(ranked, [&](const Plan& plan) { return !fits(plan); });
  if (ranked.empty()) return Error{ErrorCode::internal, "the problem has no plan to race"};
  std::optional<Plan> hint = plan_of_record<Op>(device, problem, known.hint);
  if (hint && !fits(*hint)) hint.reset();
  if (hint) {
    hint->source = PlanSource::model;
    hint->measured_us = 0;
  }
  SLUICE_TAKE(const auto operands, Op::operands_of(ranked[0].problem));
  SLUICE_TAKE(RaceMemory memory, RaceMemory::sized(device, operands, Op::sums_share(problem), most_bytes));
  const ContextScope scope(*device.impl().primary);  // a caller may have another device's context, or none
  SLUICE_TRY(scope.entered());
  const RelaxedCapture whatever_is_captured(*device.impl().api);
  const auto made = prepare<Op>(device, racing<Op>(ranked, most, hint));
  if (!made[0]) return made[0].error();
  std::vector<typename Op::Handle> kernels;
  i64 workspace_bytes = 0;
  for (const auto& kernel : made) {
    if (!kernel) continue;
    kernels.push_back(*kernel);
    workspace_bytes = std::max(workspace_bytes, workspace_of(kernel->impl().plan));
  }
  const auto turn = race_turn();
  SLUICE_TAKE(const StreamHandle stream, StreamHandle::create(device));
  SLUICE_TRY(memory.allocate(device, operands, stream));
  if constexpr (requires { Op::write_table(problem, memory, stream); })
    SLUICE_TRY(Op::write_table(problem, memory, stream));
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
  SLUICE_TAKE(const std::vector<bool> agrees, agreeing(device, racers, memory, stream));
  std::vector<Racer> left;
  std::vector<const Plan*> plans;
  for (size_t i = 0; i < racers.size(); ++i)
    if (agrees[i]) {
      left.push_back(racers[i]);
      plans.push_back(&kernels[i].impl().plan);
    }
  SLUICE_TAKE(const auto times, race_times(device, stream.get(), left, memory.copies()));
  if (is_disturbed(times[0])) return *plans[0];
  const size_t winner = winner_of(times);
  Plan won = *plans[winner];
  won.measured_us = quantile(times[winner], 0.5);
  const auto has_time = [](const RaceTimes& racer) { return !racer.empty(); };
  if (std::count_if(times.begin(), times.end(), has_time) < 2) return won;  // nothing was compared
  won.source = PlanSource::record;
  if (known.decision.size() > 0) return won;  // that one needs more workspace, which other calls may have
  keep_result(device, won,
              {.pick_us = agrees[0] ? quantile(times[0], 0.5) : 0,
               .racers = static_cast<int>(racers.size()),
               .dropped = static_cast<int>(racers.size() - left.size()),
               .pick_dropped = !agrees[0]});
  return won;
}

/// Returns true if a race makes sense: there is a product to compute, and it was not measured yet.
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

/// How many plans race, and who wants it.
struct RaceWish {
  int most = 0;       // 0, 1: no race
  bool asked = true;  // false: a default, which must be in nobody's way
};
/// Error invalid_argument: `race` is neither kUsualRace nor in 0..kMostRacers.
Result<void> check_race(int race);
/// Returns the wish of prepare() with this argument, which check_race() has accepted.
RaceWish wish_to_prepare(const Device& device, int race);
/// Returns the wish of a problem's first call. A default takes one of its layer's turns (race/layers.h).
RaceWish wish_to_run(const Device& device, const Problem& problem);
/// Returns the bytes that a race may take which nobody asked for. 0: it must not run now. A stream captures,
/// the cache is only read, or the driver does not tell.
i64 most_unasked_bytes(const Device& device);

/// Problems whose race was tried though nobody asked for it; a device has one for each op. No later call
/// tries again.
template <class Op>
class Tried {
 public:
  /// Returns whether the problem is new.
  bool add(const typename Op::Problem& problem) {
    const std::lock_guard lock(mutex_);
    return problems_.insert(problem).second;
  }

 private:
  std::mutex mutex_;
  std::unordered_set<typename Op::Problem, KeyHash> problems_;
};

/// Returns the plan that takes the place of `planned`: the winner of a race if `wish`, called if the plan is
/// the model's, wants one. If the race fails, it is the model's pick.
template <class Op, class Wish>
typename Op::Plan raced(const Device& device, const typename Op::Plan& planned, const Wish& wish,
                        i64 workspace_limit = kWorkspaceLimit) {
  if constexpr (requires { Op::family_of(planned); }) {
    if (!may_race<Op>(planned)) return planned;
    const RaceWish wanted = wish();
    if (wanted.most < 2) return planned;
    const i64 most_bytes = wanted.asked ? kMostRaceBytes : most_unasked_bytes(device);
    if (most_bytes == 0) return planned;
    if (!wanted.asked && !device.impl().template of<Tried<Op>>().add(Op::key_of(planned.problem)))
      return planned;
    if (auto won = race<Op>(device, planned.problem, wanted.most, workspace_limit, most_bytes))
      return *std::move(won);
  }
  return planned;
}

}  // namespace sluice::ops
