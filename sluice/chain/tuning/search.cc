// SPDX-License-Identifier: Apache-2.0
#include <sluice/chain/tuning/search.h>

#include <algorithm>
#include <numeric>

#include <sluice/try.h>

namespace sluice::tuning {
namespace {

constexpr int kRounds = 5;           // races incumbent and candidate in turn
constexpr int kConfirmRounds = 15;   // for changes that need not gain, and for the confirmation
constexpr double kHopeless = 1.03;   // stops after one round when the candidate takes so much longer
constexpr size_t kFirstKernels = 5;  // each product has so many before any other of its kernels
constexpr double kLastShare = 0.9;   // share of the budget for all axes but the last
constexpr Wait kWaits[] = {Wait::none, Wait::first, Wait::weights_first};
constexpr Trigger kTriggers[] = {Trigger::never, Trigger::at_start, Trigger::after_loads};
constexpr Spacing kSpacings[] = {Spacing::memory, Spacing::even, Spacing::registers, Spacing::none};
constexpr i64 kHandOffBytes[] = {0, 2 << 20, 4 << 20, 8 << 20, 16 << 20};
constexpr i64 kPrefetchBytes[] = {0, 2 << 20, 6 << 20};
constexpr Overlap kFullOverlap{Wait::weights_first, Trigger::at_start, Spacing::even};
constexpr KernelKind kKinds[] = {KernelKind::halves, KernelKind::deep_halves, KernelKind::deep,
                                 KernelKind::plain};

using Change = std::function<void(LayerChoice&)>;

/// The condition for keeping a change.
enum class Keep { gain, no_loss };

/// Sets the spacing. A launch that does not begin early has no spacing.
void put_spacing(Spacing spacing, TunedStep& choice) {
  if (choice.overlap.wait != Wait::none) choice.overlap.spacing = spacing;
}
void put_wait(Wait wait, TunedStep& choice) {
  choice.overlap.wait = wait;
  if (wait == Wait::none) choice.overlap.spacing = Spacing::memory;
}

class Search {
 public:
  Search(ChainTimer& timer, const SearchSpace& space, const SearchRequest& request)
      : timer_(timer), space_(space), request_(request), start_s_(timer.now_s()) {
    found_.choices = space.alone;
    order_.resize(space.kernels.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t x, size_t y) { return space.weight_bytes[x] > space.weight_bytes[y]; });
  }

  Result<Found> run() {
    static constexpr struct {
      const char* name;
      bool of_all;  // true: changes all steps together, and is always walked
      Result<void> (Search::*walk)();
    } kAxes[] = {{"overlap of all", true, &Search::walk_overlap},
                 {"as asked", true, &Search::walk_asked},
                 {"kinds of kernels", true, &Search::walk_kinds},
                 {"spacing of all", true, &Search::walk_spacing_of_all},
                 {"triggers of all", true, &Search::walk_triggers_of_all},
                 {"hand-off of all", true, &Search::walk_hand_off_of_all},
                 {"first kernels", false, &Search::walk_first_kernels},
                 {"hand-off and prefetch", false, &Search::walk_bytes},  // compiles nothing
                 {"kernel", false, &Search::walk_other_kernels},
                 {"wait and trigger", false, &Search::walk_boundaries},
                 {"spacing", false, &Search::walk_spacing},
                 {"overlap taken off", false, &Search::walk_taken_off}};
    expect_kinds();
    for (const auto& axis : kAxes) {
      found_.axes.push_back({.name = axis.name});
      of_all_ = axis.of_all;
      SLUICE_TRY((this->*axis.walk)());
    }
    SLUICE_TRY(confirm());
    return std::move(found_);
  }

 private:
  // ---- one change ----
  bool late(double share) const { return !of_all_ && timer_.now_s() - start_s_ >= share * request_.budget_s; }

  /// Times the incumbent and the changed chain in turn. A gain is a median that is less by kLeastGain, with
  /// slow rounds (p90) faster than the incumbent's median.
  Result<void> attempt(const std::string& what, const Change& change, Keep keep = Keep::gain) {
    LayerChoice changed = found_.choices;
    change(changed);
    if (changed == found_.choices || late(keep == Keep::gain ? kLastShare : 1)) return {};
    AxisGain& axis = found_.axes.back();
    request_.progress("tuning, " + axis.name + ": " + what + "; " + std::to_string(found_.kept()) + " of " +
                      std::to_string(found_.tried()) + " changes kept");
    SLUICE_TAKE(const std::optional<Raced> first, race(what, changed, 1));
    if (!first) return {};
    ++axis.tried;
    if (first->candidate.median > kHopeless * first->incumbent.median) {
      request_.log({axis.name, what, changed, *first});
      return {};
    }
    SLUICE_TAKE(const std::optional<Raced> raced,
                race(what, changed, keep == Keep::gain ? kRounds : kConfirmRounds));
    bool kept = raced && stays(*raced, keep);
    if (kept)
      if (const Result<void> right = timer_.check(changed); !right) {
        SLUICE_TRY(refuse(what, right.error()));
        kept = false;
      }
    if (raced) request_.log({axis.name, what, changed, *raced, kept});
    if (kept) {
      ++axis.kept;
      axis.gain *= raced->incumbent.median / raced->candidate.median;
      found_.choices = std::move(changed);
    }
    return {};
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
    SLUICE_TRY(refuse(what, raced.error()));
    return std::optional<Raced>();
  }

  /// Counts and notes a refused change. Its error ends the search if it is the machine's.
  Result<void> refuse(const std::string& what, const Error& error) {
    if (error.code == ErrorCode::driver || error.code == ErrorCode::toolchain)
      return Error{error.code, what + ": " + error.message};
    if (found_.refused++ == 0)
      found_.why_refused = found_.axes.back().name + ", " + what + ": " + error.message;
    return {};
  }

  /// Races start and result at equal clocks, for the report.
  Result<void> confirm() {
    SLUICE_TAKE(found_.confirmed, timer_.race(space_.alone, found_.choices, kConfirmRounds));
    return {};
  }

  // ---- axes of all steps together ----
  static void turn_on(LayerChoice& choices) {
    for (TunedStep& choice : choices) choice.overlap = kFullOverlap;
  }

  Result<void> walk_overlap() { return attempt("weights first", turn_on); }

  Result<void> walk_asked() {
    SLUICE_TRY(attempt("as asked", [&](LayerChoice& choices) { choices = space_.asked; }));
    if (space_.planned != space_.asked)
      SLUICE_TRY(attempt("as planned", [&](LayerChoice& choices) { choices = space_.planned; }));
    SLUICE_TRY(attempt("as asked, kernels that are best alone", [&](LayerChoice& choices) {
      choices = space_.asked;
      for (size_t i = 0; i < choices.size(); ++i) choices[i].kernel = space_.alone[i].kernel;
    }));
    return {};
  }

  /// Tries the model's first kernel of a kind for all products that have one, under both overlaps.
  Result<void> walk_kinds() {
    for (const KernelKind kind : kKinds)
      for (const bool asked : {false, true})
        SLUICE_TRY(attempt(asked ? "as asked" : "weights first", [&](LayerChoice& choices) {
          if (asked)
            choices = space_.asked;
          else
            turn_on(choices);
          if (!put_kind(kind, choices)) choices = found_.choices;
        }));
    return {};
  }

  /// Announces the kernels of the axes of all steps.
  void expect_kinds() {
    std::vector<Expected> next;
    LayerChoice on = space_.alone;
    turn_on(on);
    for (size_t step = 0; step < steps(); ++step) {
      next.push_back({step, on[step]});
      next.push_back({step, space_.planned[step]});
      for (const KernelKind kind : kKinds)
        if (const auto first = space_.kernels[step].of_kinds.find(kind);
            first != space_.kernels[step].of_kinds.end()) {
          next.push_back({step, on[step]});
          next.back().choice.kernel = first->second;
        }
    }
    timer_.expect(next);
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
    return attempt("after loads", [](LayerChoice& choices) {
      for (TunedStep& choice : choices)
        if (choice.overlap.trigger == Trigger::at_start) choice.overlap.trigger = Trigger::after_loads;
    });
  }

  Result<void> walk_hand_off_of_all() {
    return attempt("2 MB", [](LayerChoice& choices) {
      for (TunedStep& choice : choices) choice.hand_off_bytes = 2 << 20;
    });
  }

  // ---- axes of one step ----
  bool is_product(size_t step) const { return !space_.kernels[step].all.empty(); }
  size_t steps() const { return space_.kernels.size(); }
  size_t before(size_t step) const { return (step + steps() - 1) % steps(); }

  /// Tries the model's first kernels of every product before any product's others: a short budget reaches all
  /// products.
  Result<void> walk_first_kernels() { return walk_kernels(order_, 0, kFirstKernels); }
  Result<void> walk_other_kernels() {
    for (const size_t step : order_) SLUICE_TRY(walk_kernels({&step, 1}, kFirstKernels, std::string::npos));
    return {};
  }

  /// Tries kernels begin..end of the steps, which are compiled together.
  Result<void> walk_kernels(std::span<const size_t> some, size_t begin, size_t end) {
    if (late(kLastShare)) return {};
    std::vector<Expected> next;
    const auto each = [&](const auto& call) -> Result<void> {
      for (const size_t step : some) {
        const std::vector<StepKernel>& all = space_.kernels[step].all;
        for (size_t i = begin; i < std::min(end, all.size()); ++i) SLUICE_TRY(call(step, all[i]));
      }
      return {};
    };
    SLUICE_TRY(each([&](size_t step, const StepKernel& kernel) -> Result<void> {
      next.push_back({step, found_.choices[step]});
      next.back().choice.kernel = kernel;
      return {};
    }));
    timer_.expect(next);
    return each([&](size_t step, const StepKernel& kernel) -> Result<void> {
      return attempt(space_.names[step], [&](LayerChoice& choices) { choices[step].kernel = kernel; });
    });
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
  const SearchRequest& request_;
  double start_s_;
  bool of_all_ = true;
  std::vector<size_t> order_;  // steps, most weights first
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

Result<Found> search_chain(ChainTimer& timer, const SearchSpace& space, const SearchRequest& request) {
  return Search(timer, space, request).run();
}

}  // namespace sluice::tuning
