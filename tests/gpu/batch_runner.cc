// SPDX-License-Identifier: Apache-2.0
#include "batch_runner.h"

#include <algorithm>

#include "gpu.h"
#include "watchdog.h"

namespace sluice::testing {
namespace {
constexpr int kHangSeconds = 60;
}

std::string describe(const Failure& failure) {
  return "\n" + failure.name + "\n  " + failure.problem + "\n  " + failure.config + "\n  " + failure.why;
}

Result<BatchRunner> BatchRunner::create(const Device& device, int batch, i64 arena_bytes) {
  auto verifier = Verifier::create(device, batch);
  if (!verifier) return verifier.error();
  auto stream = StreamHandle::create(device);
  if (!stream) return stream.error();
  auto arena = DeviceBuffer::allocate(device, arena_bytes);
  if (!arena) return arena.error();
  auto workspace = Workspace::create(device);
  if (!workspace) return workspace.error();
  return BatchRunner(std::move(*verifier), std::move(*stream),
                     std::make_shared<const DeviceBuffer>(std::move(*arena)), *std::move(workspace), batch);
}

Result<void> BatchRunner::leave_parts_unwritten(const Device& device) {
  auto memory = DeviceBuffer::allocate(device, kWorkspaceLimit);
  if (!memory) return memory.error();
  fresh_ = *std::move(memory);
  const std::vector<u8> zeros(static_cast<size_t>(kWorkspaceCounterBytes));
  return fresh_.upload(zeros.data(), kWorkspaceCounterBytes);
}

Result<void> BatchRunner::verify_workspace() const {
  if (fresh_.bytes() == 0) return workspace_.verify();
  std::vector<u8> counters(static_cast<size_t>(kWorkspaceCounterBytes));
  if (const Result<void> read = fresh_.download(counters.data(), kWorkspaceCounterBytes); !read) return read;
  if (std::any_of(counters.begin(), counters.end(), [](u8 byte) { return byte != 0; }))
    return Error{ErrorCode::workspace, "a counter of the workspace is not 0 after the launches"};
  return {};
}

Result<void> BatchRunner::run(const gemm::Kernel& kernel, const DataSpec& spec, Judge judge,
                              const std::string& name) {
  const Result<ProblemData> data = verifier_.make_data(kernel.plan().problem, spec, arena_, stream_.get());
  if (!data) return data.error();
  gemm::Args args = data->args();
  args.workspace = workspace();
  if (const Result<void> launched = gemm::launch(kernel, args, stream_.get()); !launched) return launched;
  const int slot = static_cast<int>(pending_.size());
  if (const Result<void> queued = verifier_.enqueue_check(*data, {.judge = judge}, slot, stream_.get());
      !queued)
    return queued;
  pending_.push_back({name, kernel.plan()});
  return static_cast<int>(pending_.size()) == batch_ ? flush() : Result<void>{};
}

Result<void> BatchRunner::flush() {
  if (pending_.empty()) return {};
  const Watchdog watchdog(kHangSeconds, "cases from [" + pending_.front().name + "] to [" +
                                            pending_.back().name +
                                            "]; run them with SLUICE_TEST_BATCH=1 to see which");
  const auto found = verifier_.read_log(static_cast<int>(pending_.size()), stream_.get());
  if (!found) return found.error();
  if (const Result<void> clean = verify_workspace(); !clean) return clean;
  for (size_t i = 0; i < pending_.size(); ++i) {
    const Comparison& verdict = (*found)[i];
    elements_ += verdict.checked;
    worst_ratio_ = std::max(worst_ratio_, verdict.worst_ratio);
    norm_ratio_ = std::max(norm_ratio_, verdict.norm_ratio);
    mean_ratio_ = std::max(mean_ratio_, verdict.mean_ratio);
    if (verdict.verdict() == Verdict::not_judged)
      note_not_judged(pending_[i].name + ": " + sluice::describe(verdict));
    if (verdict.verdict() != Verdict::wrong) {
      passed_ += verdict.passed() ? 1 : 0;
      continue;
    }
    const Plan& plan = pending_[i].plan;
    failures_.push_back({pending_[i].name, to_string(plan.problem),
                         to_string(plan.config) + "\n  " + to_string(plan.split), sluice::describe(verdict)});
  }
  pending_.clear();
  return {};
}

}  // namespace sluice::testing
