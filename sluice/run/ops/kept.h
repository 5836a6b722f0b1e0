// SPDX-License-Identifier: Apache-2.0
// The kernels that a device keeps by problem for run() and the C interface's sessions, and the ranges of m
// that it serves with few kernels. Any thread may call every function here. No function holds a lock while it
// waits for the driver or the compiler. Beside the functions of engine.h, an op that run() takes defines:
//   plan_for       the plan that run() makes of a problem
//   is_empty       whether a problem has nothing to launch
//   key_of         one form for all spellings of a problem; that form has a key_hash()
//   missing        the message "no kernel is ready for ...", to which a remedy is added
//   workspace_for  the bytes of workspace that a call asks for; 0: none. with_workspace puts them into Args
//   at_addresses   the problem as a call's pointers make it, where they matter
//   kServesRows    whether the op has RowTable, plan_rows and plan_of_row
#pragma once

#include <algorithm>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include <sluice/rows.h>
#include <sluice/run/device/capture.h>
#include <sluice/run/ops/engine.h>
#include <sluice/run/ops/problem_key.h>
#include <sluice/run/ops/race.h>

namespace sluice::ops {

/// An entry takes about 3 KB. For example, a server that gets 1 to 512 rows in seven layers has 3,584
/// entries.
inline constexpr std::size_t kMostUnasked = 8192;

/// Kernels by problem. A kernel that the caller prepared on request stays. The others stay while they are
/// among the kMostUnasked most recently used, so that a server which gets new sizes for months does not grow.
/// A dropped kernel's modules stay loaded, because a graph may have been captured with them.
template <class P, class Handle>
class KeptKernels {
 public:
  explicit KeptKernels(std::size_t most_unasked = kMostUnasked) : most_unasked_(most_unasked) {}

  std::optional<Handle> find(const P& problem) const {
    const std::lock_guard lock(mutex_);
    const auto found = kernels_.find(problem);
    if (found == kernels_.end()) return {};
    Entry& entry = found->second;
    if (entry.turn) unasked_.splice(unasked_.begin(), unasked_, *entry.turn);
    return entry.kernel;
  }

  /// Returns the kept kernel, else the one that make() returns, which stays until kMostUnasked others were
  /// used after it. If two threads make one at once, the first to finish is kept and both return it.
  template <class Make>
  Result<Handle> get(const P& problem, const Make& make) {
    if (std::optional<Handle> kernel = find(problem)) return *std::move(kernel);
    Result<Handle> made = make();
    if (!made) return made;
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] = kernels_.emplace(problem, Entry{*made, {}});
    if (!is_new) return found->second.kernel;
    keep_modules(*made);
    unasked_.push_front(problem);
    found->second.turn = unasked_.begin();
    if (unasked_.size() > most_unasked_) {
      kernels_.erase(unasked_.back());
      unasked_.pop_back();
    }
    return made;
  }

  /// Returns whether the problem has a kernel, and if so keeps it for ever.
  bool keep(const P& problem) {
    const std::lock_guard lock(mutex_);
    const auto found = kernels_.find(problem);
    if (found == kernels_.end()) return false;
    ask_for(found->second);
    return true;
  }
  /// Keeps the kernel for ever; if the problem has one already, keeps that one instead.
  void add(const P& problem, const Handle& kernel) {
    const std::lock_guard lock(mutex_);
    keep_modules(kernel);
    ask_for(kernels_.emplace(problem, Entry{kernel, {}}).first->second);
  }
  /// Makes find() return this kernel from now on.
  void replace(const P& problem, const Handle& kernel) {
    const std::lock_guard lock(mutex_);
    keep_modules(kernel);
    Entry& entry = kernels_.emplace(problem, Entry{kernel, {}}).first->second;
    entry.kernel = kernel;
    ask_for(entry);
  }

  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return kernels_.size();
  }

 private:
  struct Entry {
    Handle kernel;
    std::optional<typename std::list<P>::iterator> turn;  // its place in `unasked_`; nothing: the entry stays
  };
  void ask_for(Entry& entry) {
    if (entry.turn) unasked_.erase(*std::exchange(entry.turn, std::nullopt));
  }
  void keep_modules(const Handle& kernel) {
    for (const auto& module : kernel.impl().modules) modules_.insert(module);
  }

  const std::size_t most_unasked_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<P, Entry, KeyHash> kernels_;
  mutable std::list<P> unasked_;  // ordered by use, latest first
  std::unordered_set<std::shared_ptr<const Module>> modules_;
};

/// Ranges of m that were prepared. A range is never removed, and its `kernels` keep their modules loaded.
template <class P, class Table, class Handle>
class KeptRows {
 public:
  struct Served {
    Table table;
    std::vector<Handle> kernels;  // one for each plan of the table
  };
  using Shared = std::shared_ptr<const Served>;

  /// Returns the first range of `form` (row_forms) that contains `m`; null: none.
  Shared find(const P& form, i64 m) const {
    return find_if(form, [&](const RowRange& rows) { return rows.low <= m && m <= rows.high; });
  }
  /// Returns the range equal to `rows`; null: it was not added.
  Shared find(const P& form, const RowRange& rows) const {
    return find_if(form, [&](const RowRange& known) { return known == rows; });
  }

  void add(const P& form, Served served) {
    auto shared = std::make_shared<const Served>(std::move(served));
    const std::lock_guard lock(mutex_);
    ranges_[form].push_back(std::move(shared));
  }

 private:
  template <class Wanted>
  Shared find_if(const P& form, const Wanted& wanted) const {
    const std::lock_guard lock(mutex_);
    const auto found = ranges_.find(form);
    if (found == ranges_.end()) return nullptr;
    for (const Shared& served : found->second)
      if (wanted(served->table.rows)) return served;
    return nullptr;
  }

  mutable std::mutex mutex_;
  std::unordered_map<P, std::vector<Shared>, KeyHash> ranges_;
};

/// A device holds one Kept for each op that ran on it.
template <class Op>
struct Kept {
  KeptKernels<typename Op::Problem, typename Op::Handle> kernels;
};
template <class Op>
struct Ranges : KeptRows<typename Op::Problem, typename Op::RowTable, typename Op::Handle> {};

template <class Op>
KeptKernels<typename Op::Problem, typename Op::Handle>& kept(const Device& device) {
  return device.impl().template of<Kept<Op>>().kernels;
}

/// Returns the kernel for a problem that a prepared range serves. Its plan comes from the range's table and
/// its module is loaded already, so the call is allowed during stream capture. Nothing: no range has this
/// problem.
template <class Op>
std::optional<typename Op::Handle> kernel_of_rows(const Device& device, const typename Op::Problem& problem) {
  for (const auto& form : row_forms(problem))
    if (const auto served = device.impl().template of<Ranges<Op>>().find(form, problem.m))
      if (const auto plan = Op::plan_of_row(served->table, problem.m, device.info()))
        if (auto kernel = prepare<Op>(device, *plan)) return *std::move(kernel);
  return std::nullopt;
}

/// Prepares the few kernels that serve every m of a range.
template <class Op>
Result<RowSummary> prepare_rows(const Device& device, typename Op::Problem problem, RowRange rows,
                                const gemm::Progress& progress) {
  Ranges<Op>& ranges = device.impl().template of<Ranges<Op>>();
  auto form_problem = problem;
  form_problem.m = 2;  // not 1, because one row has several spellings
  const auto form = row_forms(form_problem).front();
  if (const auto known = ranges.find(form, rows)) return known->table.summary;
  auto table = Op::plan_rows(device, problem, rows);
  if (!table) return table.error();
  typename Ranges<Op>::Served served{*std::move(table), {}};
  for (auto& kernel : prepare<Op>(device, served.table.kernels, progress)) {
    if (!kernel) return kernel.error();
    served.kernels.push_back(*std::move(kernel));
  }
  const RowSummary summary = served.table.summary;
  ranges.add(form, std::move(served));
  return summary;
}

/// Returns the plan for run(): one that fits into the workspace which the call passes.
template <class Op>
Result<typename Op::Plan> plan_for_run(const Device& device, const typename Op::Problem& problem,
                                       const typename Op::Args& args) {
  if constexpr (requires { Op::plan_for(device, problem, args); })
    return Op::plan_for(device, problem, args);
  else
    return Op::plan_for(device, problem);
}

/// Prepares the kernel for run(). `remedy` tells a caller whose stream captures what to do before a capture.
template <class Op>
Result<typename Op::Handle> prepare_for_run(const Device& device, const typename Op::Problem& problem,
                                            const typename Op::Args& args, Stream stream,
                                            const char* remedy) {
  if constexpr (Op::kServesRows)
    if (auto kernel = kernel_of_rows<Op>(device, problem)) return *std::move(kernel);
  const auto plan = plan_for_run<Op>(device, problem, args);
  if (!plan) return plan.error();
  if (!Op::is_empty(problem))
    SLUICE_TRY(refuse_capture(device, stream, Op::missing(problem) + ": " + remedy));
  if constexpr (requires { Op::workspace_limit(args); })
    return prepare<Op>(
        device, raced<Op>(
                    device, *plan, [&] { return wish_to_run(device, problem); }, Op::workspace_limit(args)));
  else
    return prepare<Op>(device, *plan);
}

/// Returns the key under which a call's kernel is kept.
template <class Op>
auto key_of_call(const typename Op::Problem& problem, const typename Op::Args& args) {
  if constexpr (requires { Op::at_addresses(problem, args); })
    return Op::key_of(Op::at_addresses(problem, args));
  else
    return Op::key_of(problem);
}

/// Prepares the kernel at the first call of a problem, lends a workspace if the caller passes none, and
/// launches. The device's context is current during the call; another may be current in this thread before.
template <class Op>
Result<void> run(const Device& device, const typename Op::Problem& problem, const typename Op::Args& args,
                 Stream stream, const char* remedy = "run it once before the capture") {
  const ContextScope scope(*device.impl().primary);
  SLUICE_TRY(scope.entered());
  const auto key = key_of_call<Op>(problem, args);
  const auto kernel =
      kept<Op>(device).get(key, [&] { return prepare_for_run<Op>(device, key, args, stream, remedy); });
  if (!kernel) return kernel.error();
  const auto& impl = kernel->impl();
  if constexpr (requires { Op::workspace_for(impl, args); }) {
    if (const i64 needed = Op::workspace_for(impl, args); needed > 0) {
      const auto lent = device.impl().lender.lend(device, stream, needed);
      if (!lent) return lent.error();
      return launch_here<Op>(impl, Op::with_workspace(args, *lent), stream);
    }
  }
  return launch_here<Op>(impl, args, stream);
}

/// Whether a kept kernel's plan is the model's, and may race.
template <class Op>
bool may_race_again(const Device& device, const typename Op::Problem& problem) {
  if constexpr (requires(typename Op::Plan plan) { Op::family_of(plan); }) {
    const auto kernel = kept<Op>(device).find(problem);
    return kernel && may_race<Op>(kernel->impl().plan);
  }
  return false;
}

/// Prepares the problems that have no kernel yet, in parallel, and keeps all. `race`: as for gemm::prepare;
/// if it is above 1, problems whose kept plan is the model's race too. If a plan fails, nothing is prepared.
/// If a kernel fails, the kernels before it stay. The error is the first.
template <class Op>
Result<void> make_ready(const Device& device, std::span<const typename Op::Problem> problems,
                        int race = kUsualRace) {
  SLUICE_TRY(check_race(race));
  std::vector<typename Op::Problem> missing;
  std::vector<typename Op::Plan> plans;
  for (const auto& spelled : problems) {
    const auto problem = Op::key_of(spelled);
    const bool again = race > 1 && may_race_again<Op>(device, problem);
    if (!again && kept<Op>(device).keep(problem)) continue;
    if (std::find(missing.begin(), missing.end(), problem) != missing.end()) continue;
    auto plan = Op::plan_for(device, problem);
    if (!plan) return plan.error();
    missing.push_back(problem);
    plans.push_back(*std::move(plan));
  }
  for (auto& plan : plans) plan = raced<Op>(device, plan, [&] { return wish_to_prepare(device, race); });
  const auto made = prepare<Op>(device, plans);
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (!made[i]) return made[i].error();
    if (race > 1)
      kept<Op>(device).replace(missing[i], *made[i]);
    else
      kept<Op>(device).add(missing[i], *made[i]);
  }
  return {};
}

/// Makes run() use this plan for its problem from now on, whatever was chosen before.
template <class Op>
Result<void> use(const Device& device, const typename Op::Plan& plan) {
  const auto kernel = prepare<Op>(device, plan);
  if (!kernel) return kernel.error();
  kept<Op>(device).replace(Op::key_of(plan.problem), *kernel);
  return {};
}

}  // namespace sluice::ops
