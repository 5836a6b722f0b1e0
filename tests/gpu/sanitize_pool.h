// SPDX-License-Identifier: Apache-2.0
// Products for tools/gpu_sanitize.py: a config for each class of kernel that may have its own bug of memory
// or order. Companions have no pool; their random tests run instead (sanitize_test.cc). Pure; always the same
// lists.
#pragma once

#include <string>
#include <vector>

#include <sluice/packed.h>
#include <sluice/plan.h>
#include <sluice/spec/config.h>

#include "class_kinds.h"
#include "conv_cases.h"

namespace sluice::testing {

// Each pool has every value of every field that its kinds of kernel can have (class_kinds.h).
/// class_pool(), and classes it lacks: swapped operands, gates, scales of D, larger clusters, early weights.
std::vector<KernelConfig> sanitize_dense_pool();
/// Operands that TMA cannot address: A, B or both, along k and along m and n.
std::vector<KernelConfig> sanitize_strided_pool();
/// Both plain schedules: types, splits, epilogues, early weights; every width.
std::vector<KernelConfig> sanitize_plain_pool();
/// Random packed kernels.
std::vector<PackedConfig> sanitize_narrow_pool();
std::vector<PackedConfig> sanitize_strip_pool();
std::vector<PackedConfig> sanitize_wide_pool();
/// The kernels of conv_variants() for all geometries, as an H200 and an H100 plan them.
std::vector<KernelConfig> sanitize_conv_pool();
/// Gathering kernels with values of fields that those do not have.
std::vector<KernelConfig> sanitize_conv_field_pool();

std::string class_name(const ConvVariant& variant);

/// Plans of sizes with wrapping rings, clusters that take turns, and ragged edges.
std::vector<Plan> sanitize_plans(const KernelConfig& config, const DeviceInfo& device);
/// Plans of the geometries that the variant can compute.
std::vector<Plan> sanitize_plans(const ConvVariant& variant, const DeviceInfo& device);
/// A packed problem of such a size; for the wide kernel more tiles than an H200 has SMs.
PackedProblem sanitize_problem(const PackedConfig& config);

}  // namespace sluice::testing
