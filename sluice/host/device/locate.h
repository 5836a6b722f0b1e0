// SPDX-License-Identifier: Apache-2.0
// Asks a GPU where the clusters of a launch lie (host/device/gpc_order.h). Called by gemm.cc; tests compile
// its unit.
#pragma once

#include <memory>
#include <string>

#include <sluice/gemm.h>
#include <sluice/host/device/gpc_order.h>

namespace sluice {

std::string locate_unit_text();

/// Found out when this Device is first asked for it, in a millisecond, on the assumption that the GPU is
/// idle: if it is not, or makes no such clusters, the numbers that follow are as right, and of less use. Not
/// while a stream is being captured, as with all of prepare(). Errors: toolchain, driver.
Result<std::shared_ptr<const GpcOrder>> gpc_order(const Device& device);

}  // namespace sluice
