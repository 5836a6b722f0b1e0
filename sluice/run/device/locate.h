// SPDX-License-Identifier: Apache-2.0
// Measures in which GPC each cluster of a launch runs (run/device/gpc_order.h). Called by gemm.cc; tests
// compile its unit.
#pragma once

#include <memory>
#include <string>

#include <sluice/gemm.h>
#include <sluice/run/device/gpc_order.h>

namespace sluice {

std::string locate_unit_text();

/// Returns the GPCs of clusters. The first call of a Device measures them in a millisecond; the GPU should be
/// idle then. If it is busy, or has no such clusters, the resulting numbers are valid but gain less. Not
/// allowed during a capture, like all of prepare(). Errors: toolchain, driver.
Result<std::shared_ptr<const GpcOrder>> gpc_order(const Device& device);

}  // namespace sluice
