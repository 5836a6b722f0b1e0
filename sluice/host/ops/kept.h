// SPDX-License-Identifier: Apache-2.0
// The kernels that a device keeps for run() and the C interface's sessions, by problem, and the ranges of
// numbers of rows that it serves with few kernels. Any thread may call all of it; no lock is held while the
// driver or the compiler is waited for. An op that is run says, beside what engine.h asks:
//   is_empty       nothing to launch
//   key_of         one form for all spellings of the same problem, which has a key_hash()
//   missing        "no kernel is ready for ...", behind which a remedy is said
//   workspace_for  the bytes that a call asks for; 0: none
//   kServesRows    whether plan_rows and plan_of_row are there
#pragma once

#include <algorithm>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include <sluice/host/device/capture.h>
#include <sluice/host/ops/engine.h>
#include <sluice/host/ops/problem_key.h>
#include <sluice/rows.h>

namespace sluice::ops {

/// About 3 KB each. A server that meets all of 1 to 512 rows of seven layers has 3,584.
inline constexpr std::size_t kMostUnasked = 8192;

/// Of problems that nobody asked to prepare the kMostUnasked used last stay, so that a server which meets new
/// sizes for months does not grow. Modules stay loaded all the same: a graph may have been captured with
/// them, and a launch needs nothing else.
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

  /// The kernel that is there, else the one that make() returns, which stays until kMostUnasked others were
  /// used after it; of two threads' the first.
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

  /// Is it there? Then it stays from now on.
  bool keep(const P& problem) {
    const std::lock_guard lock(mutex_);
    const auto found = kernels_.find(problem);
    if (found == kernels_.end()) return false;
    ask_for(found->second);
    return true;
  }
  /// The kernel stays, unless there is one already, which then does.
  void add(const P& problem, const Handle& kernel) {
    const std::lock_guard lock(mutex_);
    keep_modules(kernel);
    ask_for(kernels_.emplace(problem, Entry{kernel, {}}).first->second);
  }
  /// find() returns this one from now on.
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
    std::optional<typename std::list<P>::iterator> turn;  // in `unasked_`; nothing: it stays
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
  mutable std::list<P> unasked_;  // the one used last first
  std::unordered_set<std::shared_ptr<const Module>> modules_;
};

/// Ranges are added and never go; `kernels` keep their modules loaded.
template <class P, class Table, class Handle>
class KeptRows {
 public:
  struct Served {
    Table table;
    std::vector<Handle> kernels;  // of the table's plans
  };
  using Shared = std::shared_ptr<const Served>;

  /// The first range of `form` (row_forms) that has `m`; null: none.
  Shared find(const P& form, i64 m) const {
    return find_if(form, [&](const RowRange& rows) { return rows.low <= m && m <= rows.high; });
  }
  /// That very range; null: it was not added.
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

/// A device has one of each op that was run on it.
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

/// The kernel of a problem that a prepared range serves: planned from its table, loaded already, so legal
/// while a stream captures. Nothing: no range has this problem, and it goes the ordinary way.
template <class Op>
std::optional<typename Op::Handle> kernel_of_rows(const Device& device, const typename Op::Problem& problem) {
  for (const auto& form : row_forms(problem))
    if (const auto served = device.impl().template of<Ranges<Op>>().find(form, problem.m))
      if (const auto plan = Op::plan_of_row(served->table, problem.m, device.info()))
        if (auto kernel = prepare<Op>(device, *plan)) return *std::move(kernel);
  return std::nullopt;
}

/// All numbers of rows of a range, with few kernels.
template <class Op>
Result<RowSummary> prepare_rows(const Device& device, typename Op::Problem problem, RowRange rows,
                                const gemm::Progress& progress) {
  Ranges<Op>& ranges = device.impl().template of<Ranges<Op>>();
  auto form_problem = problem;
  form_problem.m = 2;  // one row may be spelled otherwise
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

/// `remedy`: what a caller whose stream captures should have done.
template <class Op>
Result<typename Op::Handle> prepare_for_run(const Device& device, const typename Op::Problem& problem,
                                            Stream stream, const char* remedy) {
  if constexpr (Op::kServesRows)
    if (auto kernel = kernel_of_rows<Op>(device, problem)) return *std::move(kernel);
  const auto plan = Op::plan_for(device, problem);
  if (!plan) return plan.error();
  if (!Op::is_empty(problem))
    SLUICE_TRY(refuse_capture(device, stream, Op::missing(problem) + ": " + remedy));
  return prepare<Op>(device, *plan);
}

/// Prepares at the first call of a problem, lends a workspace where the caller brings none, and launches.
template <class Op>
Result<void> run(const Device& device, const typename Op::Problem& problem, const typename Op::Args& args,
                 Stream stream, const char* remedy = "run it once before the capture") {
  const auto key = Op::key_of(problem);
  const auto kernel =
      kept<Op>(device).get(key, [&] { return prepare_for_run<Op>(device, key, stream, remedy); });
  if (!kernel) return kernel.error();
  const auto& impl = kernel->impl();
  if constexpr (requires { Op::workspace_for(impl, args); }) {
    if (const i64 needed = Op::workspace_for(impl, args); needed > 0) {
      const auto lent = device.impl().lender.lend(device, stream, needed);
      if (!lent) return lent.error();
      return launch<Op>(impl, Op::with_workspace(args, *lent), stream);
    }
  }
  return launch<Op>(impl, args, stream);
}

/// Prepares those that are not kept yet, in parallel; all stay. Error: the first of a plan, then nothing was
/// prepared; or of a kernel, then those before it stay.
template <class Op>
Result<void> make_ready(const Device& device, std::span<const typename Op::Problem> problems) {
  std::vector<typename Op::Problem> missing;
  std::vector<typename Op::Plan> plans;
  for (const auto& spelled : problems) {
    const auto problem = Op::key_of(spelled);
    if (kept<Op>(device).keep(problem)) continue;
    auto plan = Op::plan_for(device, problem);
    if (!plan) return plan.error();
    missing.push_back(problem);
    plans.push_back(*std::move(plan));
  }
  const auto made = prepare<Op>(device, plans);
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (!made[i]) return made[i].error();
    kept<Op>(device).add(missing[i], *made[i]);
  }
  return {};
}

/// run() uses this plan for its problem from now on, whatever was chosen before.
template <class Op>
Result<void> use(const Device& device, const typename Op::Plan& plan) {
  const auto kernel = prepare<Op>(device, plan);
  if (!kernel) return kernel.error();
  kept<Op>(device).replace(Op::key_of(plan.problem), *kernel);
  return {};
}

}  // namespace sluice::ops
