// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/ops/race/layers.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace sluice::ops {
namespace {

/// The sizes of a weight in one order, which its transpose shares.
using Sizes = std::array<i64, 5>;

Sizes sizes_of(i64 some, i64 others, const Axes& filter) {
  return {std::min(some, others), std::max(some, others), filter.w, filter.h, filter.d};
}

struct Layers {
  std::mutex mutex;
  std::set<Sizes> known;       // outputs before inputs
  std::map<Sizes, int> turns;  // left
};
Layers& layers() {
  static Layers all;
  return all;
}

/// The turns of the layer that the problem is a product of; null if there are none. Call it under the lock.
int* turns_of(const Problem& p) {
  const auto left = [](const Sizes& sizes) -> int* {
    const auto found = layers().turns.find(sizes);
    return found != layers().turns.end() && found->second > 0 ? &found->second : nullptr;
  };
  if (is_conv(p.conv)) return left(sizes_of(p.conv.filters, p.conv.channels, p.conv.filter));
  if (p.batch != 1 || has_groups(p)) return nullptr;
  int* const of_output = left(sizes_of(p.n, p.k, kOnes));
  return of_output != nullptr ? of_output : left(sizes_of(p.m, p.n, kOnes));  // the weight's gradient
}

}  // namespace

Result<void> let_race(const LayerSizes& layer) {
  for (const auto& [name, size] :
       {std::pair{"outputs", layer.outputs}, std::pair{"inputs", layer.inputs},
        std::pair{"filter", i64{std::min({layer.filter.w, layer.filter.h, layer.filter.d})}}})
    if (size < 1)
      return Error{ErrorCode::invalid_size, std::string(name) + " = " + std::to_string(size) +
                                                " must be at least 1: pass the sizes of a layer's weight"};
  const std::lock_guard lock(layers().mutex);
  const Axes& filter = layer.filter;
  if (layers().known.insert({layer.outputs, layer.inputs, filter.w, filter.h, filter.d}).second)
    layers().turns[sizes_of(layer.outputs, layer.inputs, filter)] += kTurnsOfLayer;
  return {};
}

bool has_turn(const Problem& problem) {
  const std::lock_guard lock(layers().mutex);
  return turns_of(problem) != nullptr;
}

bool takes_turn(const Problem& problem) {
  const std::lock_guard lock(layers().mutex);
  int* const turns = turns_of(problem);
  if (turns != nullptr) --*turns;
  return turns != nullptr;
}

}  // namespace sluice::ops
