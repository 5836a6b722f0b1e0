// SPDX-License-Identifier: Apache-2.0
// Products for tools/gpu_sanitize.py: a config for each class of kernel that may have its own memory or
// ordering bug. Companions have no pool; their random tests run instead (sanitize_test.cc). The lists are the
// same in every run, and need no GPU.
#pragma once

#include <string>
#include <vector>

#include <sluice/plan.h>
#include <sluice/spec/config.h>

#include "class_kinds.h"
#include "conv_cases.h"
#include "tests/packed_problems.h"

namespace sluice::testing {

// Each pool covers every value of every field that kernels of its kinds can have (class_kinds.h). This one is
// class_pool() with the classes that it lacks: swapped operands, gates, scales of D, larger clusters, early
// loads of weights.
std::vector<KernelConfig> sanitize_dense_pool();
/// Configs with operands that TMA cannot address: A, B or both, contiguous along k or along m and n.
std::vector<KernelConfig> sanitize_strided_pool();
/// Configs of both plain schedules: types, splits, epilogues, early loads of weights, and every tile width.
std::vector<KernelConfig> sanitize_plain_pool();
/// Configs of packed kernels, drawn at random.
std::vector<PackedConfig> sanitize_narrow_pool();
std::vector<PackedConfig> sanitize_strip_pool();
std::vector<PackedConfig> sanitize_wide_pool();
/// The kernels that an H200 and an H100 use for all variants of conv_variants() and all geometries.
std::vector<KernelConfig> sanitize_conv_pool();
/// Gathering kernels with field values that sanitize_conv_pool() lacks.
std::vector<KernelConfig> sanitize_conv_field_pool();

std::string class_name(const ConvVariant& variant);

/// Plans of sizes at which rings wrap, clusters compute several tiles, and tiles at the edges are partial.
std::vector<Plan> sanitize_plans(const KernelConfig& config, const DeviceInfo& device);
/// Plans of all geometries that the variant can compute.
std::vector<Plan> sanitize_plans(const ConvVariant& variant, const DeviceInfo& device);
/// A packed problem of such a size. For the wide kernel it has more tiles than an H200 has SMs.
PackedProblem sanitize_problem(const PackedConfig& config);

}  // namespace sluice::testing
