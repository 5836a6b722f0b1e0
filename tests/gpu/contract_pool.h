// SPDX-License-Identifier: Apache-2.0
// Products for the contract of dependent launches (gemm_overlap_test.cc, packed_overlap_test.cc): kernels
// with overlap, of every kind. Pure.
#pragma once

#include <vector>

#include <sluice/packed.h>
#include <sluice/plan.h>

namespace sluice::testing {

/// Each schedule, cluster and split, with each wait and trigger.
Result<std::vector<Plan>> contract_role_plans(const DeviceInfo& device);
/// Operands that TMA cannot address: A, B or both, along k and along m and n.
Result<std::vector<Plan>> contract_strided_plans(const DeviceInfo& device);
/// Convolutions: fprop, dgrad, dgrad in phases, wgrad.
Result<std::vector<Plan>> contract_gathering_plans(const DeviceInfo& device);
/// plain_wgmma with widths that are odd multiples of 8.
Result<std::vector<Plan>> contract_width_plans(const DeviceInfo& device);
/// Plans with each value of an enumeration or switch that the kernels above can have and do not
/// (class_cover.h).
Result<std::vector<Plan>> contract_field_plans(const DeviceInfo& device);
/// Packed kernels, with tiles of tokens that are odd multiples of 8, and each value of an enumeration or
/// switch.
std::vector<PackedConfig> contract_packed_pool();
/// A problem for one of them, of several tiles each way. Rows of X are as long as k.
PackedProblem contract_problem(const PackedConfig& config);

}  // namespace sluice::testing
