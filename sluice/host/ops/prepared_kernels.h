// SPDX-License-Identifier: Apache-2.0
// The kernels that were prepared for problems: what run() of gemm.h and packed.h, and of the C interface's
// sessions, look up. Any thread may call all of it; nobody waits for the driver or the compiler with the lock
// held. Of problems that nobody asked to prepare the kMostUnasked used last stay, so that a server which
// meets new sizes for months does not grow. Modules stay loaded all the same, for a graph may have been
// captured with them, and of launches nothing else is needed.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <sluice/gemm.h>
#include <sluice/host/ops/hash.h>
#include <sluice/packed.h>

namespace sluice {

class Module;

struct ProblemHash {
  std::size_t operator()(const Problem& problem) const;
  std::size_t operator()(const PackedProblem& problem) const;
};

namespace gemm {
/// What a launch of the kernel runs.
std::vector<std::shared_ptr<const Module>> modules_of(const Kernel& kernel);
}  // namespace gemm
namespace packed {
std::vector<std::shared_ptr<const Module>> modules_of(const Kernel& kernel);
}

/// About 3 KB each. A server that meets all of 1 to 512 rows of seven layers has 3,584.
inline constexpr std::size_t kMostUnasked = 8192;

template <class P, class Kernel>
class PreparedKernels {
 public:
  explicit PreparedKernels(std::size_t most_unasked = kMostUnasked) : most_unasked_(most_unasked) {}

  std::optional<Kernel> find(const P& problem) const {
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
  Result<Kernel> get(const P& problem, const Make& make) {
    if (std::optional<Kernel> kernel = find(problem)) return *std::move(kernel);
    Result<Kernel> made = make();
    if (!made) return made.error();
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

  /// Prepares those of `problems` that are not there, in parallel: plan(problem), then prepare(plans). All
  /// stay. Error: the first of a plan, then nothing was prepared; or of a kernel, then those before it stay.
  template <class Planner, class Prepare>
  Result<void> make_ready(std::span<const P> problems, const Planner& plan, const Prepare& prepare) {
    std::vector<P> missing;
    std::vector<std::decay_t<decltype(*plan(problems.front()))>> plans;
    for (const P& problem : problems) {
      if (keep(problem)) continue;
      auto planned = plan(problem);
      if (!planned) return planned.error();
      missing.push_back(problem);
      plans.push_back(*std::move(planned));
    }
    std::vector<Result<Kernel>> made = prepare(plans);
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (!made[i]) return made[i].error();
      keep_modules(*made[i]);
      ask_for(kernels_.emplace(missing[i], Entry{*std::move(made[i]), {}}).first->second);
    }
    return {};
  }

  /// find() returns this one from now on.
  void replace(const P& problem, const Kernel& kernel) {
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
    Kernel kernel;
    std::optional<typename std::list<P>::iterator> turn;  // in `unasked_`; nothing: it stays
  };

  /// Is it there? Then it stays from now on.
  bool keep(const P& problem) {
    const std::lock_guard lock(mutex_);
    const auto found = kernels_.find(problem);
    if (found == kernels_.end()) return false;
    ask_for(found->second);
    return true;
  }
  void ask_for(Entry& entry) {
    if (entry.turn) unasked_.erase(*std::exchange(entry.turn, std::nullopt));
  }
  void keep_modules(const Kernel& kernel) {
    for (auto& module : modules_of(kernel)) modules_.insert(std::move(module));
  }

  const std::size_t most_unasked_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<P, Entry, ProblemHash> kernels_;
  mutable std::list<P> unasked_;  // the one used last first
  std::unordered_set<std::shared_ptr<const Module>> modules_;
};

using PreparedGemms = PreparedKernels<Problem, gemm::Kernel>;
using PreparedPacked = PreparedKernels<PackedProblem, packed::Kernel>;

}  // namespace sluice
