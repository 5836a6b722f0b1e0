// SPDX-License-Identifier: Apache-2.0
// Kernels of the fuzz tests: a fixed list of a few hundred, so that compiling is bounded. Every registered
// config, and random ones beyond the planner's picks: more cluster shapes, shallow rings, longer promotion
// intervals. Pure, so that pool_test can fill a cache without a GPU.
#pragma once

#include <vector>

#include <sluice/spec/config.h>

namespace sluice::testing {

/// Activation none or relu only, for exact results. Always the same list.
std::vector<KernelConfig> exact_pool();
/// All activations on few shapes, for real data.
std::vector<KernelConfig> real_pool();
/// One config for each class that may have its own races: schedule x cluster x input family x store path x
/// promotion, and products added to D.
std::vector<KernelConfig> class_pool();

}  // namespace sluice::testing
