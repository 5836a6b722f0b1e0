// SPDX-License-Identifier: Apache-2.0
// Layers whose products race at their first call though nobody asked for that call
// (docs/decisions/0042-races-where-they-are-free.md). A layer is known by the sizes of its weight, because it
// may be made before it is on a GPU, and its gradients are products of other shapes. Kept for the process.
#pragma once

#include <sluice/gemm.h>

namespace sluice::ops {

/// So many problems of one weight race: the three products of a training step, with two numbers of rows. A
/// server that gets a new number of rows every second does not race for ever.
inline constexpr int kTurnsOfLayer = 6;

struct LayerSizes {
  i64 outputs = 0, inputs = 0;
  Axes filter = kOnes;  // convolutions only
};
/// Lets first calls race whose weight has these sizes. A second call with the same sizes adds no turns;
/// a layer whose weight is the transpose, like down of gate, has turns of its own. Error
/// invalid_size: a size below 1. In C sluice_race_layer(): `filter` holds `spatial` sizes, outermost first;
/// spatial 0: no convolution. It fails with invalid_argument for another `spatial` than 0..3, and for no
/// filter.
Result<void> let_race(const LayerSizes& layer);
/// Returns whether the problem is a product of such a layer, or of its gradients, and has a turn.
bool has_turn(const Problem& problem);
/// Returns has_turn(), and uses the turn up.
bool takes_turn(const Problem& problem);

}  // namespace sluice::ops
