// SPDX-License-Identifier: Apache-2.0
// Configs for the fuzz tests: a fixed list of a few hundred, which limits the compile time. It has every
// registered config, and random ones that the planner never picks: more cluster shapes, shallow rings, longer
// promotion intervals. Needs no GPU, so pool_test can fill a cache.
#pragma once

#include <vector>

#include <sluice/spec/config.h>

namespace sluice::testing {

/// Configs for whole-number data: activations are none and relu only, so results are exact. The list is the
/// same in every run.
std::vector<KernelConfig> exact_pool();
/// Configs for real-valued data: all activations on few shapes.
std::vector<KernelConfig> real_pool();
/// One config of each class that may have races of its own. Classes: schedule x cluster x input family x
/// store path x promotion, and products that are added to D.
std::vector<KernelConfig> class_pool();

}  // namespace sluice::testing
