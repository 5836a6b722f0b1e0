// SPDX-License-Identifier: Apache-2.0
// Graphs and contenders borrow the operands, so they go first when the next problem comes.
#include "bench/tune_gpu.h"

#include <chrono>
#include <thread>

#include "bench/sluice_contender.h"

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
  copies_.clear();
  samples_.clear();
  // beta = 0 would not read C, and a residual is tuned for its bytes.
  const Scalars scalars{.alpha = 1.0f, .beta = problem.epilogue.residual ? 1.0f : 0.0f};
  Result<std::vector<ProblemData>> copies = make_copies(lab_, problem, scalars);
  if (!copies) return copies.error();
  copies_ = std::move(*copies);
  return {};
}

int GpuTuneMachine::width() {
  const int jobs = lab_.device.options().jobs;
  return jobs > 0 ? jobs : static_cast<int>(std::thread::hardware_concurrency());
}

std::vector<Result<int>> GpuTuneMachine::prepare(std::span<const Plan> plans) {
  std::vector<Result<int>> numbers;
  for (const Result<gemm::Kernel>& kernel : gemm::prepare(lab_.device, plans)) {
    if (!kernel) {
      numbers.push_back(kernel.error());
      continue;
    }
    numbers.push_back(static_cast<int>(entries_.size()));
    entries_.push_back({.contender = sluice_contender(lab_, *kernel, copies_, kSluice)});
  }
  return numbers;
}

Result<std::string> GpuTuneMachine::check(int kernel) {
  Entry& entry = entries_[static_cast<size_t>(kernel)];
  const Result<Comparison> found = verify(lab_, entry.contender, copies_[0]);
  if (!found) return found.error();
  if (!found->passed()) return describe(*found);
  const Problem& p = copies_[0].problem();
  if (found->checked == 0 && p.m * p.n * p.batch > 0)
    return Error{ErrorCode::internal, "the verifier looked at no element"};
  return std::string();
}

Result<const Replay*> GpuTuneMachine::replay_of(Entry& entry, Effort effort) {
  std::optional<Replay>& replay = effort == Effort::screen ? entry.screen : entry.careful;
  if (replay) return &*replay;
  const double replay_us = effort == Effort::screen ? kScreenReplayUs : lab_.method.replay_us;
  const Result<int> launches = launches_for(lab_, entry.contender, copies(), replay_us);
  if (!launches) return launches.error();
  Result<Replay> captured = capture_replay(lab_, entry.contender, copies(), *launches);
  if (!captured) return captured.error();
  replay = std::move(*captured);
  return &*replay;
}

Result<double> GpuTuneMachine::time(int kernel, Effort effort) {
  const Result<const Replay*> replay = replay_of(entries_[static_cast<size_t>(kernel)], effort);
  if (!replay) return replay.error();
  const bool careful = effort == Effort::careful;
  const Rounds once{.count = 1, .rest_ms = careful ? lab_.method.rest_ms : kScreenRestMs};
  const auto times = time_in_turn(lab_, std::span(*replay, 1), once, careful ? &samples_ : nullptr);
  if (!times) return times.error();
  return times->front().front();
}

Result<void> GpuTuneMachine::alive() {
  return still_alive(lab_);
}

}  // namespace sluice::bench
