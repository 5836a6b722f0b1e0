// SPDX-License-Identifier: Apache-2.0
#include "tools/fit/effects.h"

#include <algorithm>
#include <cmath>

#include <sluice/host/planner/packed/packed_cost_model.h>
#include <sluice/packed.h>
#include <sluice/records/record_book.h>

namespace sluice::fitting {
namespace {

constexpr double kWrong = 1.2;
/// Candidates whose estimate exceeds this multiple of the best are skipped: changing a constant by a fifth
/// cannot make them the pick.
constexpr double kFar = 1.6;
constexpr std::size_t kEvery = 2;  // uses every second shipped record

struct PackedItem {
  PackedProblem problem;
  std::vector<packed::Plan> plans;  // with estimates of the unchanged model
};

double estimate_of(const PackedProblem& p, const packed::Plan& plan, const DeviceInfo& device,
                   const Costs& costs) {
  return std::visit([&](const auto& c) { return packed::estimate_us(p, c, device, costs); }, plan.config);
}

std::vector<PackedItem> packed_items(const DeviceInfo& device) {
  std::vector<PackedItem> items;
  std::size_t seen = 0;
  for (const TuningRecord& record : embedded_records().records) {
    const auto* const recipe = std::get_if<PackedRecipe>(&record.key.recipe);
    if (recipe == nullptr || seen++ % kEvery != 0) continue;
    auto plans = packed::candidates(example_of(*recipe), device, {});
    if (!plans) continue;
    const double best = plans->front().estimate_us;
    std::erase_if(*plans, [&](const packed::Plan& plan) { return plan.estimate_us > kFar * best; });
    items.push_back({plans->front().problem, std::move(*plans)});
  }
  return items;
}

/// Returns the mean of the unchanged model's estimate of the pick, relative to its best estimate.
double packed_loss(const std::vector<PackedItem>& items, const DeviceInfo& device, const Costs& costs) {
  double sum = 0;
  for (const PackedItem& item : items) {
    double least = 1e30, picked = 0, best = 1e30;
    for (const packed::Plan& plan : item.plans) {
      const double us = estimate_of(item.problem, plan, device, costs);
      if (us < least) least = us, picked = plan.estimate_us;
      best = std::min(best, plan.estimate_us);
    }
    sum += std::log(picked / best);
  }
  return std::exp(sum / static_cast<double>(std::max<std::size_t>(items.size(), 1)));
}

}  // namespace

std::vector<Effect> effects_of(const std::vector<NamedShapes>& lists, const DeviceInfo& device) {
  const std::vector<PackedItem> items = packed_items(device);
  std::vector<double> right;
  for (const NamedShapes& list : lists) right.push_back(judge(list.shapes, device, kCosts).loss);
  std::vector<Effect> effects;
  for (const Constant<Costs>& row : cost_constants()) {
    Effect effect{row, std::vector<double>(lists.size(), -1), 0};
    for (const double factor : {kWrong, 1 / kWrong}) {
      Costs wrong = kCosts;
      wrong.*row.member *= factor;
      for (std::size_t i = 0; i < lists.size(); ++i)
        effect.of_lists[i] =
            std::max(effect.of_lists[i], judge(lists[i].shapes, device, wrong).loss - right[i]);
      effect.of_packed = std::max(effect.of_packed, packed_loss(items, device, wrong) - 1);
    }
    effects.push_back(std::move(effect));
  }
  return effects;
}

}  // namespace sluice::fitting
