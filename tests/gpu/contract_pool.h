// SPDX-License-Identifier: Apache-2.0
// Dense products for the contract of dependent launches (gemm_overlap_test.cc): plans with overlap, for every
// kind of kernel. Pure.
#pragma once

#include <vector>

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
/// What the kinds of kernel above can have, and those plans do not: each value of each enumeration and switch
/// (class_cover.h).
Result<std::vector<Plan>> contract_field_plans(const DeviceInfo& device);

}  // namespace sluice::testing
