// SPDX-License-Identifier: Apache-2.0
// Neighbours share SMs and L2, so most gains need two changes at once. Two axes make them: kernels of two
// products in a row, and a kernel with a spacing. They use the few kernels that came closest when tried
// alone.
#include "bench/chain/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include <sluice/try.h>

namespace sluice::bench {
namespace {

constexpr int kRounds = 5;           // races incumbent and candidate in turn
constexpr int kConfirmRounds = 15;   // for changes that need not gain, and for the confirmation
constexpr double kHopeless = 1.03;   // stops after one round when the candidate takes so much longer
constexpr size_t kNearKernels = 4;   // kept for each product, for changes of two things at once
constexpr double kPairsShare = 0.9;  // share of the budget for all axes but the last
constexpr Wait kWaits[] = {Wait::none, Wait::first, Wait::weights_first};
constexpr Trigger kTriggers[] = {Trigger::never, Trigger::at_start, Trigger::after_loads};
constexpr Spacing kSpacings[] = {Spacing::memory, Spacing::even, Spacing::registers, Spacing::none};
constexpr i64 kHandOffBytes[] = {0, 2 << 20, 4 << 20, 8 << 20, 16 << 20};
constexpr i64 kPrefetchBytes[] = {0, 2 << 20, 6 << 20};
constexpr Overlap kFullOverlap{Wait::weights_first, Trigger::at_start, Spacing::even};

using Change = std::function<void(LayerChoice&)>;

/// The condition for keeping a change.
enum class Keep { gain, no_loss };

/// Sets the spacing. A launch that does not begin early has none of its own.
void put_spacing(Spacing spacing, TunedStep& choice) {
  if (choice.overlap.wait != Wait::none) choice.overlap.spacing = spacing;
}
void put_wait(Wait wait, TunedStep& choice) {
  choice.overlap.wait = wait;
  if (wait == Wait::none) choice.overlap.spacing = Spacing::memory;
}

class Search {
 public:
  Search(ChainTimer& timer, const SearchSpace& space, double budget_s, const Phase& phase)
      : timer_(timer), space_(space), phase_(phase), start_s_(timer.now_s()), budget_s_(budget_s) {
    found_.choices = space.alone;
    near_.resize(space.kernels.size());
  }

  Result<Found> run() {
    static constexpr struct {
      const char* name;
      Result<void> (Search::*walk)();
    } kAxes[] = {{"overlap of all", &Search::walk_overlap},
                 {"records", &Search::walk_records},
                 {"kinds of kernels", &Search::walk_kinds},
                 {"spacing of all", &Search::walk_spacing_of_all},
                 {"triggers of all", &Search::walk_triggers_of_all},
                 {"kernel", &Search::walk_kernels},
                 {"wait and trigger", &Search::walk_boundaries},
                 {"spacing", &Search::walk_spacing},
                 {"hand-off and prefetch", &Search::walk_bytes},
                 {"kernels of two products", &Search::walk_pairs},
                 {"kernel and spacing", &Search::walk_kernel_and_spacing},
                 {"overlap taken off", &Search::walk_taken_off}};
    for (const auto& [name, walk] : kAxes) {
      found_.axes.push_back({.name = name});
      SLUICE_TRY((this->*walk)());
    }
    SLUICE_TRY(confirm());
    return std::move(found_);
  }

 private:
  // ---- one change ----
  bool late(double share) const { return timer_.now_s() - start_s_ >= share * budget_s_; }

  /// Times the incumbent and the changed chain in turn. A gain is a median that is less by kLeastGain, with
  /// slow rounds (p90) faster than the incumbent's median. Returns the ratio of times after the first round;
  /// nothing if it was not timed.
  Result<std::optional<double>> attempt(const std::string& what, const Change& change,
                                        Keep keep = Keep::gain) {
    LayerChoice changed = found_.choices;
    change(changed);
    if (changed == found_.choices || late(keep == Keep::gain ? kPairsShare : 1))
      return std::optional<double>();
    AxisGain& axis = found_.axes.back();
    phase_(
        fmt::format("tuning, {}: {}; {} of {} changes kept", axis.name, what, found_.kept(), found_.tried()));
    SLUICE_TAKE(const std::optional<Raced> first, race(what, changed, 1));
    if (!first) return std::optional<double>();
    ++axis.tried;
    const double ratio = first->candidate.median / first->incumbent.median;
    if (ratio > kHopeless) return std::optional(ratio);
    SLUICE_TAKE(const std::optional<Raced> raced,
                race(what, changed, keep == Keep::gain ? kRounds : kConfirmRounds));
    if (raced && stays(*raced, keep)) {
      ++axis.kept;
      axis.gain *= raced->incumbent.median / raced->candidate.median;
      found_.choices = std::move(changed);
    }
    return std::optional(ratio);
  }

  static bool stays(const Raced& raced, Keep keep) {
    const double us = raced.incumbent.median;
    if (keep == Keep::no_loss) return raced.candidate.median <= us;
    return raced.candidate.median <= us * (1 - kLeastGain) && raced.candidate.p90 <= us;
  }

  /// Returns nothing if the change gives no valid chain; the refusal is counted and noted.
  Result<std::optional<Raced>> race(const std::string& what, const LayerChoice& candidate, int rounds) {
    const Result<Raced> raced = timer_.race(found_.choices, candidate, rounds);
    if (raced) return std::optional(*raced);
    const ErrorCode code = raced.error().code;
    if (code == ErrorCode::driver || code == ErrorCode::toolchain)
      return Error{code, fmt::format("{}: {}", what, raced.error().message)};
    if (found_.refused++ == 0)
      found_.why_refused = fmt::format("{}, {}: {}", found_.axes.back().name, what, raced.error().message);
    return std::optional<Raced>();
  }

  /// Races start and result at equal clocks, for the report.
  Result<void> confirm() {
    SLUICE_TAKE(const Raced raced, timer_.race(space_.alone, found_.choices, kConfirmRounds));
    found_.start_us = raced.incumbent.median;
    found_.tuned_us = raced.candidate.median;
    return {};
  }

  // ---- axes of all steps together ----
  static void turn_on(LayerChoice& choices) {
    for (TunedStep& choice : choices) choice.overlap = kFullOverlap;
  }

  Result<void> walk_overlap() {
    SLUICE_TRY(attempt("weights first", turn_on));
    return {};
  }

  Result<void> walk_records() {
    SLUICE_TRY(attempt("as recorded", [&](LayerChoice& choices) { choices = space_.recorded; }));
    SLUICE_TRY(attempt("as recorded, kernels that are best alone", [&](LayerChoice& choices) {
      choices = space_.recorded;
      for (size_t i = 0; i < choices.size(); ++i) choices[i].kernel = space_.alone[i].kernel;
    }));
    return {};
  }

  /// Tries the model's first kernel of a kind for all products that have one, under both overlaps.
  Result<void> walk_kinds() {
    for (const KernelKind kind : {KernelKind::halves, KernelKind::deep_halves, KernelKind::deep})
      for (const bool recorded : {false, true})
        SLUICE_TRY(attempt(recorded ? "as recorded" : "weights first", [&](LayerChoice& choices) {
          if (recorded)
            choices = space_.recorded;
          else
            turn_on(choices);
          if (!put_kind(kind, choices)) choices = found_.choices;
        }));
    return {};
  }

  /// Returns false if no product has a kernel of the kind.
  bool put_kind(KernelKind kind, LayerChoice& choices) const {
    bool any = false;
    for (size_t i = 0; i < choices.size(); ++i)
      if (const auto first = space_.kernels[i].of_kinds.find(kind);
          first != space_.kernels[i].of_kinds.end()) {
        choices[i].kernel = first->second;
        any = true;
      }
    return any;
  }

  /// Tries spacings alternately, so that a launch and the next differ; then one spacing for all.
  Result<void> walk_spacing_of_all() {
    for (const Spacing first : {Spacing::memory, Spacing::registers})
      for (const Spacing of_companions : {Spacing::registers, Spacing::none})
        SLUICE_TRY(attempt("by turns", [&](LayerChoice& choices) {
          Spacing next = first;
          for (size_t i = 0; i < choices.size(); ++i) {
            const bool companion = !is_product(i);
            put_spacing(companion ? of_companions : next, choices[i]);
            if (!companion) next = next == Spacing::memory ? Spacing::registers : Spacing::memory;
          }
        }));
    for (const Spacing spacing : {Spacing::memory, Spacing::registers, Spacing::none})
      SLUICE_TRY(attempt(name_of(spacing), [&](LayerChoice& choices) {
        for (TunedStep& choice : choices) put_spacing(spacing, choice);
      }));
    return {};
  }

  Result<void> walk_triggers_of_all() {
    SLUICE_TRY(attempt("after loads", [](LayerChoice& choices) {
      for (TunedStep& choice : choices)
        if (choice.overlap.trigger == Trigger::at_start) choice.overlap.trigger = Trigger::after_loads;
    }));
    return {};
  }

  // ---- axes of one step ----
  bool is_product(size_t step) const { return !space_.kernels[step].all.empty(); }
  size_t steps() const { return space_.kernels.size(); }
  size_t before(size_t step) const { return (step + steps() - 1) % steps(); }

  /// Tries each kernel of each product. The closest to the incumbent are kept for changes of two things.
  Result<void> walk_kernels() {
    for (size_t step = 0; step < steps(); ++step) {
      expect_kernels(step, space_.kernels[step].all);
      std::vector<std::pair<double, StepKernel>> tried;
      for (const StepKernel& kernel : space_.kernels[step].all) {
        SLUICE_TAKE(const std::optional<double> ratio, attempt(space_.names[step], [&](LayerChoice& choices) {
                      choices[step].kernel = kernel;
                    }));
        if (ratio) tried.emplace_back(*ratio, kernel);
      }
      std::stable_sort(tried.begin(), tried.end(),
                       [](const auto& x, const auto& y) { return x.first < y.first; });
      for (size_t i = 0; i < tried.size() && i < kNearKernels; ++i) near_[step].push_back(tried[i].second);
    }
    return {};
  }

  void expect_kernels(size_t step, const std::vector<StepKernel>& kernels) {
    LayerChoice choices(kernels.size(), found_.choices[step]);
    for (size_t i = 0; i < kernels.size(); ++i) choices[i].kernel = kernels[i];
    if (!choices.empty()) timer_.expect(step, choices);
  }

  /// Changes a step's wait and the trigger of the step before it together: a trigger without a wait does
  /// nothing, a wait without a trigger little.
  Result<void> walk_boundaries() {
    for (size_t step = 0; step < steps(); ++step)
      for (const Wait wait : kWaits)
        for (const Trigger trigger : kTriggers)
          if ((wait == Wait::none) == (trigger == Trigger::never))
            SLUICE_TRY(attempt(space_.names[step], [&](LayerChoice& choices) {
              put_wait(wait, choices[step]);
              choices[before(step)].overlap.trigger = trigger;
            }));
    return {};
  }

  Result<void> walk_spacing() {
    for (size_t step = 0; step < steps(); ++step)
      for (const Spacing spacing : kSpacings)
        SLUICE_TRY(
            attempt(space_.names[step], [&](LayerChoice& choices) { put_spacing(spacing, choices[step]); }));
    return {};
  }

  Result<void> walk_bytes() {
    for (size_t step = 0; step < steps(); ++step) {
      for (const i64 bytes : kHandOffBytes)
        SLUICE_TRY(
            attempt(space_.names[step], [&](LayerChoice& choices) { choices[step].hand_off_bytes = bytes; }));
      for (const i64 bytes : kPrefetchBytes)
        if (is_product(step))
          SLUICE_TRY(attempt(space_.names[step],
                             [&](LayerChoice& choices) { choices[step].prefetch_bytes = bytes; }));
    }
    return {};
  }

  // ---- axes of two changes at once ----
  std::vector<size_t> products() const {
    std::vector<size_t> all;
    for (size_t step = 0; step < steps(); ++step)
      if (is_product(step)) all.push_back(step);
    return all;
  }

  Result<void> walk_pairs() {
    const std::vector<size_t> all = products();
    for (size_t i = 0; i < all.size() && all.size() > 1; ++i) {
      const size_t one = all[i], two = all[(i + 1) % all.size()];
      for (const StepKernel& first : near_[one])
        for (const StepKernel& second : near_[two])
          SLUICE_TRY(attempt(fmt::format("{} and {}", space_.names[one], space_.names[two]),
                             [&](LayerChoice& choices) {
                               choices[one].kernel = first;
                               choices[two].kernel = second;
                             }));
    }
    return {};
  }

  Result<void> walk_kernel_and_spacing() {
    for (const size_t step : products())
      for (const StepKernel& kernel : near_[step])
        for (const Spacing spacing : kSpacings)
          SLUICE_TRY(attempt(space_.names[step], [&](LayerChoice& choices) {
            choices[step].kernel = kernel;
            put_spacing(spacing, choices[step]);
          }));
    return {};
  }

  /// Tries each step without its overlap: the choices that made it a gain may be gone.
  Result<void> walk_taken_off() {
    for (size_t step = 0; step < steps(); ++step)
      if (found_.choices[step].overlap.wait != Wait::none)
        SLUICE_TRY(attempt(
            space_.names[step],
            [&](LayerChoice& choices) {
              put_wait(Wait::none, choices[step]);
              choices[step].prefetch_bytes = 0;
              choices[before(step)].overlap.trigger = Trigger::never;
            },
            Keep::no_loss));
    return {};
  }

  ChainTimer& timer_;
  const SearchSpace& space_;
  const Phase& phase_;
  double start_s_, budget_s_;
  std::vector<std::vector<StepKernel>> near_;  // one list a product, nearest first
  Found found_;
};

}  // namespace

int Found::tried() const {
  int count = 0;
  for (const AxisGain& axis : axes) count += axis.tried;
  return count;
}

int Found::kept() const {
  int count = 0;
  for (const AxisGain& axis : axes) count += axis.kept;
  return count;
}

Result<Found> search_chain(ChainTimer& timer, const SearchSpace& space, double budget_s, const Phase& phase) {
  return Search(timer, space, budget_s, phase).run();
}

}  // namespace sluice::bench
