// SPDX-License-Identifier: Apache-2.0
// Plans for testing the contract of dependent launches (gemm_overlap_test.cc, packed_overlap_test.cc):
// kernels of every kind, with overlap. Needs no GPU.
#pragma once

#include <vector>

#include <sluice/plan.h>

#include "tests/packed_problems.h"

namespace sluice::testing {

/// Plans with each schedule, cluster shape and split, each with every wait and trigger.
Result<std::vector<Plan>> contract_role_plans(const DeviceInfo& device);
/// Plans with operands that TMA cannot address: A, B or both, contiguous along k or along m and n.
Result<std::vector<Plan>> contract_strided_plans(const DeviceInfo& device);
/// Plans of convolutions: fprop, dgrad without and with phases, wgrad.
Result<std::vector<Plan>> contract_gathering_plans(const DeviceInfo& device);
/// Plans of plain_wgmma whose tile widths are odd multiples of 8.
Result<std::vector<Plan>> contract_width_plans(const DeviceInfo& device);
/// Plans that cover the values of enumerations and switches that the plans above lack (class_cover.h).
Result<std::vector<Plan>> contract_field_plans(const DeviceInfo& device);
/// Configs of packed kernels. They cover tiles of tokens that are odd multiples of 8, and each value of an
/// enumeration or switch.
std::vector<PackedConfig> contract_packed_pool();
/// Returns a problem that such a kernel computes with several tiles along m and n. Rows of X have no padding.
PackedProblem contract_problem(const PackedConfig& config);

}  // namespace sluice::testing
