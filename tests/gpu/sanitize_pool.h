// SPDX-License-Identifier: Apache-2.0
// What tools/gpu_sanitize.py runs of products: a config for each class of each kernel that a bug of memory or
// of order could live in. Companions have no pool: their random tests are run (sanitize_test.cc says which).
// Pure, and always the same lists.
#pragma once

#include <string>
#include <vector>

#include <sluice/packed.h>
#include <sluice/plan.h>
#include <sluice/spec/config.h>

namespace sluice::testing {

/// Those of class_pool(), and what it has none of: swapped operands, gates, scales of D, larger clusters,
/// early weights.
std::vector<KernelConfig> sanitize_dense_pool();
/// Both plain schedules: types, splits, epilogues, early weights.
std::vector<KernelConfig> sanitize_plain_pool();
/// Of the three packed kernels: every choice that a config has comes twice at least.
std::vector<PackedConfig> sanitize_narrow_pool();
std::vector<PackedConfig> sanitize_strip_pool();
std::vector<PackedConfig> sanitize_wide_pool();

/// What a config has chosen, in words: "parts 4", "gated". The pools cover these.
std::vector<std::string> choices_of(const PackedConfig& config);
/// For the name of a test: its place in the pool, and what it is.
std::string class_name(size_t index, const KernelConfig& config);
std::string class_name(size_t index, const PackedConfig& config);

/// Of sizes for which rings wrap, clusters take turns and edges are ragged.
std::vector<Plan> sanitize_plans(const KernelConfig& config, const DeviceInfo& device);
/// The same; of the wide kernel more tiles than an H200 has SMs.
PackedProblem sanitize_problem(const PackedConfig& config);

}  // namespace sluice::testing
