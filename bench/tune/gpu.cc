// SPDX-License-Identifier: Apache-2.0
// Graphs and contenders refer to the operands, so they are destroyed before the next problem is opened.
#include "bench/tune/gpu.h"

#include <chrono>
#include <thread>

#include <sluice/run/records/record_store.h>
#include <sluice/try.h>

#include "bench/shapes.h"
#include "bench/tune/report.h"

namespace sluice::bench {
namespace {

constexpr double kScreenReplayUs = 800;
constexpr double kScreenRestMs = 1;

}  // namespace

double GpuTuneMachine::now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Result<void> GpuTuneMachine::open(const Problem& problem) {
  entries_.clear();
  samples_.clear();
  SLUICE_TAKE(const auto opened, store_.open(problem, scalars_of(request_of(problem))));
  open_ = opened;
  return {};
}

int GpuTuneMachine::width() {
  const int jobs = lab_.device.options().jobs;
  return jobs > 0 ? jobs : static_cast<int>(std::thread::hardware_concurrency());
}

std::vector<Result<int>> GpuTuneMachine::prepare(std::span<const Plan> plans) {
  std::vector<Result<int>> numbers;
  std::vector<Result<Contender>> contenders = open_->prepare(plans);
  for (size_t i = 0; i < plans.size(); ++i) {
    if (!contenders[i]) {
      numbers.push_back(contenders[i].error());
      continue;
    }
    numbers.push_back(static_cast<int>(entries_.size()));
    entries_.push_back({.plan = plans[i], .contender = *std::move(contenders[i])});
  }
  return numbers;
}

Result<Comparison> GpuTuneMachine::compare(int kernel) {
  const Entry& entry = entries_[static_cast<size_t>(kernel)];
  return judged(*open_, entry.contender, entry.plan);
}

Result<std::string> GpuTuneMachine::check(int kernel) {
  const Problem& p = entries_[static_cast<size_t>(kernel)].plan.problem;
  return verdict_on(compare(kernel), !is_packed(p) && p.m * p.n * p.batch == 0);
}

Result<const Replay*> GpuTuneMachine::replay_of(Entry& entry, Effort effort) {
  std::optional<Replay>& replay = effort == Effort::screen ? entry.screen : entry.careful;
  if (replay) return &*replay;
  const double replay_us = effort == Effort::screen ? kScreenReplayUs : lab_.method.replay_us;
  SLUICE_TAKE(Replay captured, replay_for(lab_, entry.contender, copies(), replay_us));
  replay = std::move(captured);
  return &*replay;
}

Result<double> GpuTuneMachine::time(int kernel, Effort effort) {
  SLUICE_TAKE(const auto replay, replay_of(entries_[static_cast<size_t>(kernel)], effort));
  const bool careful = effort == Effort::careful;
  const Rounds once{.count = 1,
                    .rest_ms = careful ? lab_.method.rest_ms : kScreenRestMs,
                    .samples = careful ? &samples_ : nullptr};
  SLUICE_TAKE(const auto times, time_in_turn(lab_, std::span(replay, 1), once));
  return times.front().us.front();
}

Result<void> GpuTuneMachine::alive() {
  return still_alive(lab_);
}

TuneRun tune(const Lab& lab, RecordFile& records, std::span<const Problem> problems,
             const TuneSettings& settings, const TuneHooks& hooks) {
  GpuTuneMachine machine(lab);
  const DeviceInfo& device = lab.device.info();
  const std::string known = lab.telemetry.driver_version(), driver = known.empty() ? "unknown" : known;
  const SearchHooks search{
      .known =
          [&](const Problem& problem) { return !settings.again && records.has(problem, device, driver); },
      .recorded =
          [&](const Problem& problem) {
            const RecordBook books[] = {records.book(), lab.device.records()};
            return recorded_plan(problem, device, books);
          },
      .phase = hooks.phase,
      .finished = [&](TuneResult& result) -> Result<void> {
        result.copies = machine.copies();
        result.telemetry = machine.telemetry();
        if (result.state == TuneState::tuned)
          SLUICE_TRY(records.save(record_of(
              result,
              {.device = device, .driver = driver, .date = utc_now(), .method = method_text(lab.method)})));
        return hooks.finished(result);
      }};
  return tune(machine, device, problems, settings, search);
}

}  // namespace sluice::bench
