// SPDX-License-Identifier: Apache-2.0
// The kernels that were prepared for problems, and stay: what run() of gemm.h and mixed.h, and of the C
// interface's sessions, look up. Any thread may call all of it; nobody waits for the driver or the compiler
// with the lock held.
#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sluice/gemm.h>
#include <sluice/host/hash.h>
#include <sluice/mixed.h>

namespace sluice {

struct ProblemHash {
  std::size_t operator()(const Problem& problem) const;
  std::size_t operator()(const MixedProblem& problem) const;
};

template <class P, class Kernel>
class PreparedKernels {
 public:
  std::optional<Kernel> find(const P& problem) const {
    const std::lock_guard lock(mutex_);
    const auto found = kernels_.find(problem);
    if (found == kernels_.end()) return {};
    return found->second;
  }

  /// The kernel that is there, else the one that make() returns, which stays; of two threads' the first.
  template <class Make>
  Result<Kernel> get(const P& problem, const Make& make) {
    if (std::optional<Kernel> kernel = find(problem)) return *std::move(kernel);
    Result<Kernel> made = make();
    if (!made) return made.error();
    const std::lock_guard lock(mutex_);
    return kernels_.emplace(problem, *std::move(made)).first->second;
  }

  /// Prepares those of `problems` that are not there, in parallel: plan(problem), then prepare(plans).
  /// Error: the first of a plan, then nothing was prepared; or of a kernel, then those before it stay.
  template <class Planner, class Prepare>
  Result<void> make_ready(std::span<const P> problems, const Planner& plan, const Prepare& prepare) {
    std::vector<P> missing;
    std::vector<std::decay_t<decltype(*plan(problems.front()))>> plans;
    for (const P& problem : problems) {
      if (find(problem).has_value()) continue;
      auto planned = plan(problem);
      if (!planned) return planned.error();
      missing.push_back(problem);
      plans.push_back(*std::move(planned));
    }
    std::vector<Result<Kernel>> made = prepare(plans);
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (!made[i]) return made[i].error();
      kernels_.emplace(missing[i], *std::move(made[i]));
    }
    return {};
  }

  /// find() returns this one from now on. What was there stays alive: a graph may have been captured with it.
  void replace(const P& problem, const Kernel& kernel) {
    const std::lock_guard lock(mutex_);
    const auto [entry, is_new] = kernels_.emplace(problem, kernel);
    if (!is_new) retired_.push_back(std::exchange(entry->second, kernel));
  }

  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return kernels_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<P, Kernel, ProblemHash> kernels_;
  std::vector<Kernel> retired_;
};

using PreparedGemms = PreparedKernels<Problem, gemm::Kernel>;
using PreparedMixed = PreparedKernels<MixedProblem, mixed::Kernel>;

}  // namespace sluice
