// SPDX-License-Identifier: Apache-2.0
// The kernels that the fuzz tests run: a fixed list of a few hundred, so that compiling is bounded. Every
// registered config, and random ones beyond what the planner would pick: more cluster shapes, shallow rings,
// longer promotion intervals. Pure, so that pool_test can fill a cache on a machine without a GPU.
#pragma once

#include <vector>

#include <sluice/spec/config.h>

namespace sluice::testing {

/// Activation none or relu only: results are exact. Always the same list.
std::vector<KernelConfig> exact_pool();
/// All activations, on few shapes: for real data.
std::vector<KernelConfig> real_pool();
/// One config for each class that a race could live in: schedule x cluster x input family x store path x
/// promotion, and products added to D.
std::vector<KernelConfig> class_pool();

}  // namespace sluice::testing
