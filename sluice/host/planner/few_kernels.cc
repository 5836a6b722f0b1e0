// SPDX-License-Identifier: Apache-2.0
// Adds choices greedily, then exchanges one for another until no exchange helps: the usual heuristic for
// k-medians. On small cases it finds the optimum (tests/unit/few_kernels_test.cc compares with all sets).
#include <sluice/host/planner/few_kernels.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include <sluice/host/planner/constants.h>

namespace sluice {
namespace {

/// Penalty of a place that no chosen kernel can serve, larger than any loss; and the initial penalty, before
/// any kernel is chosen.
constexpr double kUnserved = 1e6, kNothing = 1e8;
double loss_of(double us, double least) {
  return least > 0 ? std::max(us / least - 1, 0.0) : 0.0;
}

double penalty_of(double us, double least) {
  if (us >= kCannotServe) return kUnserved;
  const double loss = loss_of(us, least), felt = loss / kPlanner.rows.felt_loss;
  return std::min(loss * (1 + felt * felt * felt), kUnserved / 2);
}

/// A set of chosen kernels. For each place it knows the lowest and the second lowest penalty among them.
class Cover {
 public:
  Cover(const CostTable& costs, int most_units) : costs_(costs), most_units_(most_units) {
    const std::size_t choices = costs.units.size();
    penalties_.resize(choices);
    for (std::size_t c = 0; c < choices; ++c)
      for (std::size_t p = 0; p < costs.us.size(); ++p)
        penalties_[c].push_back(costs.weights[p] * penalty_of(costs.us[p][c], costs.least[p]));
    refresh();
  }

  const std::vector<int>& chosen() const { return chosen_; }

  /// Adds the choice that lowers the total penalty most per additional unit. Returns false if none fits, or
  /// none gains enough.
  bool grow() {
    int best = -1;
    double most =
        kPlanner.rows.least_gain * std::accumulate(costs_.weights.begin(), costs_.weights.end(), 0.0);
    for (int c = 0; c < count(); ++c) {
      const int more = units_with(c, -1) - units_;
      if (is_chosen(c) || units_ + more > most_units_) continue;
      double gain = 0;
      for (std::size_t p = 0; p < first_.size(); ++p) gain += std::max(first_[p] - penalties_[c][p], 0.0);
      gain /= std::max(more, 1);
      if (gain > most) best = c, most = gain;
    }
    if (best < 0) return false;
    chosen_.push_back(best);
    refresh();
    return true;
  }

  /// Makes the exchange of one chosen kernel for another that lowers the total penalty most. Returns false if
  /// none does.
  bool swap() {
    int out = -1, in = -1;
    double least = total_ * (1 - 1e-9);
    for (int slot = 0; slot < static_cast<int>(chosen_.size()); ++slot)
      for (int c = 0; c < count(); ++c) {
        if (is_chosen(c) || units_with(c, slot) > most_units_) continue;
        double total = 0;
        for (std::size_t p = 0; p < first_.size(); ++p) {
          const double kept = best_[p] == slot ? second_[p] : first_[p];
          total += std::min(kept, penalties_[c][p]);
        }
        if (total < least) out = slot, in = c, least = total;
      }
    if (out < 0) return false;
    chosen_[out] = in;
    refresh();
    return true;
  }

  bool serves_all() const {
    for (std::size_t p = 0; p < first_.size(); ++p)
      if (first_[p] >= costs_.weights[p] * kUnserved) return false;
    return true;
  }
  int units() const { return units_; }

 private:
  int count() const { return static_cast<int>(penalties_.size()); }
  bool is_chosen(int c) const { return std::find(chosen_.begin(), chosen_.end(), c) != chosen_.end(); }

  /// Returns the number of units of the chosen kernels, without the one in `slot` (-1: with all) and with
  /// choice `more` (-1: none).
  int units_with(int more, int slot) const {
    std::set<int> units;
    if (more >= 0) units.insert(costs_.units[more].begin(), costs_.units[more].end());
    for (int i = 0; i < static_cast<int>(chosen_.size()); ++i)
      if (i != slot) units.insert(costs_.units[chosen_[i]].begin(), costs_.units[chosen_[i]].end());
    return static_cast<int>(units.size());
  }

  void refresh() {
    first_.assign(costs_.us.size(), kNothing);
    second_.assign(costs_.us.size(), kNothing);
    best_.assign(costs_.us.size(), -1);
    for (int slot = 0; slot < static_cast<int>(chosen_.size()); ++slot)
      for (std::size_t p = 0; p < first_.size(); ++p) {
        const double penalty = penalties_[chosen_[slot]][p];
        if (penalty < first_[p]) {
          second_[p] = std::exchange(first_[p], penalty);
          best_[p] = slot;
        } else if (penalty < second_[p]) {
          second_[p] = penalty;
        }
      }
    total_ = std::accumulate(first_.begin(), first_.end(), 0.0);
    units_ = units_with(-1, -1);
  }

  const CostTable& costs_;
  int most_units_;
  std::vector<std::vector<double>> penalties_;  // indexed by choice, then by place
  std::vector<int> chosen_;
  std::vector<double> first_, second_;
  std::vector<int> best_;  // per place: index into `chosen_` of the kernel with the lowest penalty
  double total_ = 0;
  int units_ = 0;
};

}  // namespace

FewKernels choose_few(const CostTable& costs, int most_units) {
  Cover cover(costs, most_units);
  do {
    while (cover.grow()) {
    }
  } while (cover.swap());
  if (!cover.serves_all()) return {};
  FewKernels few{.chosen = cover.chosen(), .units = cover.units()};
  std::sort(few.chosen.begin(), few.chosen.end());
  for (std::size_t p = 0; p < costs.us.size(); ++p) {
    double us = kCannotServe;
    for (const int c : few.chosen) us = std::min(us, costs.us[p][c]);
    const double loss = loss_of(us, costs.least[p]);
    few.mean_loss += loss / static_cast<double>(costs.us.size());
    if (loss > few.worst_loss) few.worst_loss = loss, few.worst_place = p;
  }
  return few;
}

}  // namespace sluice
